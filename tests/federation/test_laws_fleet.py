"""Fleets that learn, meet, fall silent, lose their state, leave and come back, in any order.

Whatever happened: once everybody has heard everybody, each member's model is the one that central
training on its own rows and on what the other members published would have given. One whose state
was restored to a time before its first upload has to learn enough for a new one before that: until
then, the others know more of it than it does itself.
"""

from collections.abc import Collection

from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from elmgrove.federation.contribution import Contribution, Departure, Entry, entry_from_bytes
from support.fleet_machine import (
    BY_DISTANCE,
    IN_WINDOWS,
    MIXED,
    Device,
    Fleet,
    FleetOnMemory,
    InFolder,
)
from support.laws import law_examples


class GuardedFleetOnMemory(FleetOnMemory):
    guarded = True


class FleetOnFolder(InFolder, FleetOnMemory):
    """A fleet that meets in a folder, through files."""


class FleetOfPeers(Fleet):
    """No exchange: devices tell each other what they know, or leave it on a stick."""

    def __init__(self) -> None:
        super().__init__()
        self.stick: list[bytes] = []
        self.farewells: dict[str, Departure] = {}

    def told_by(self, device: Device) -> list[Entry]:
        own: list[Entry] = list(device.member.ledger.entries)
        if device.inside and device.member.shared is not None:
            own.append(device.member.shared)
        if device.member.name in self.farewells:
            own.append(self.farewells[device.member.name])
        return own

    @rule(number=st.integers(0, 3))
    def give(self, number: int) -> None:
        device = self.one(number)
        event("gave" if device.inside else "joined")
        device.member.offer(guarded=self.guarded)
        device.back_up()
        device.inside = True
        self.farewells.pop(device.member.name, None)

    @rule(giver=st.integers(0, 3), taker=st.integers(0, 3))
    def receive_all(self, giver: int, taker: int) -> None:
        assert not self.one(taker).member.receive_all(self.told_by(self.one(giver)))

    @rule(number=st.integers(0, 3))
    def write_on_stick(self, number: int) -> None:
        self.stick += [entry.to_bytes() for entry in self.told_by(self.one(number))]

    @rule(number=st.integers(0, 3))
    def read_from_stick(self, number: int) -> None:
        assert not self.one(number).member.receive_all(map(entry_from_bytes, self.stick))

    @precondition(lambda self: self.inside)
    @rule(number=st.integers(0, 3))
    def leave(self, number: int) -> None:
        device = self.inside[number % len(self.inside)]
        device.inside = False
        self.farewells[device.member.name] = device.member.depart()
        event("left")

    @rule(number=st.integers(0, 3), back=st.integers(0, 5), leaving=st.booleans())
    def say_two_things_with_one_epoch(self, number: int, back: int, leaving: bool) -> None:
        """Tell one peer, lose the state, learn as many other rows, tell another."""
        device = self.one(number)
        first, second = (self.one(number + n) for n in (1, 2))
        before = len(device.rows)
        if leaving:
            self.farewells[device.member.name] = device.member.depart()
            device.inside = False
        first.member.receive_all(self.told_by(device))
        device.restore(back)
        if before > len(device.rows):
            # A departure has an epoch of its own.
            self.teach(number, before - len(device.rows) + leaving)
        self.give(number)
        second.member.receive_all(self.told_by(device))
        mine = [one.member.ledger.get(device.member.name) for one in (first, second)]
        if None not in mine and mine[0] != mine[1] and mine[0].epoch == mine[1].epoch:
            event(f"one epoch for a {type(mine[0]).__name__} and a {type(mine[1]).__name__}")
        self.agree_without(number)

    @rule(silent=st.integers(0, 3))
    def agree_without(self, silent: int) -> None:
        """Devices that talk to each other know the same of one that does not, whatever it said."""
        name = self.one(silent).member.name
        others = [device for device in self.devices.values() if device.member.name != name]
        self.tell_each_other(others)
        self.tell_each_other(others)
        known = [device.member.ledger.get(name) for device in others]
        assert all(entry == known[0] for entry in known)

    def tell_each_other(self, devices: Collection[Device]) -> None:
        for taker in devices:
            for giver in devices:
                assert not taker.member.receive_all(self.told_by(giver))

    def let_everybody_hear(self) -> None:
        for _ in range(4):
            self.tell_each_other(self.devices.values())
            self.repeat_farewells()
        before = [device.member.to_bytes() for device in self.devices.values()]
        for taker in self.devices.values():
            taker.member.receive_all(
                entry for giver in self.inside for entry in self.told_by(giver)
            )
        assert before == [device.member.to_bytes() for device in self.devices.values()]

    def repeat_farewells(self) -> None:
        """A device that left from a restored state may have said so with too low an epoch."""
        for name in self.farewells:
            known = [device.member.ledger.get(name) for device in self.inside]
            if any(isinstance(entry, Contribution) for entry in known):
                event("left again, with a higher epoch")
                self.farewells[name] = self.devices[name].member.depart()


class GuardedFleetOfPeers(FleetOfPeers):
    guarded = True


class DistantFleetOnMemory(FleetOnMemory):
    """Devices that score by distance, and whose rows lie far from each other's."""

    charter, apart = MIXED, 1e3


class DistantFleetOnFolder(FleetOnFolder):
    charter, apart = BY_DISTANCE, 1e3


class DistantFleetOfPeers(FleetOfPeers):
    charter, apart = BY_DISTANCE, 10.0


class GuardedFleetInWindows(FleetOfPeers):
    charter, guarded = IN_WINDOWS, True


for machine, examples in {
    FleetOnMemory: 25,
    GuardedFleetOnMemory: 25,
    FleetOnFolder: 25,
    FleetOfPeers: 25,
    GuardedFleetOfPeers: 25,
    DistantFleetOnMemory: 12,
    DistantFleetOnFolder: 12,
    DistantFleetOfPeers: 12,
    GuardedFleetInWindows: 12,
}.items():
    machine.TestCase.settings = settings(
        max_examples=law_examples(examples), stateful_step_count=20, deadline=None
    )
    globals()[f"Test{machine.__name__}"] = machine.TestCase

"""A fleet whose devices learn, sync, lose their state, leave and come back, in any order."""

import tempfile
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from elmgrove import Basis, Detector, HiddenLayer
from elmgrove.algebra.unsent import inputs_held_back
from elmgrove.detector.inputs import stacked
from elmgrove.errors import Unreachable
from elmgrove.exchange.base import Exchange
from elmgrove.exchange.folder import FolderExchange
from elmgrove.exchange.memory import MemoryExchange
from elmgrove.exchange.session import Session
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution, Departure, Entry
from elmgrove.federation.member import Member, least_new_rows

# A name that begins with another one, and one that no file name can hold as it is.
NAMES = ["fan", "fan-2", "fan 3", "Lüfter/4"]


CHARTER = Charter(
    "fans", Basis(HiddenLayer(3, 2, activation="tanh", seed=5), 3), ridge=0.1, merged=True
)


LEAST = least_new_rows(CHARTER.basis)

#: Devices that score by distance: rows as they come, mixed or not, and two side by side.
BY_DISTANCE = Charter("fans", Basis(HiddenLayer(3, 3), 3, score="distance"), merged=True)
MIXED = Charter("fans", Basis(HiddenLayer(3, 2, seed=5), 3, score="distance"), merged=True)
IN_WINDOWS = Charter(
    "fans", Basis(HiddenLayer(3, 4, seed=5), 6, window=2, score="distance"), merged=True
)


NOTHING = np.empty((0, 3))


@dataclass
class Device:
    """One device, and what the test knows of it beside: its rows, and those it gave away."""

    member: Member
    rows: np.ndarray = field(default_factory=NOTHING.copy)
    given: np.ndarray | None = None
    held_back: tuple[int, ...] = ()
    inside: bool = False
    forgot_giving: bool = False
    guarded: bool = False
    backups: list[tuple[Any, ...]] = field(default_factory=list)

    @property
    def basis(self) -> Basis:
        return self.member.detector.basis

    @property
    def inputs(self) -> np.ndarray:
        """What was learned: rows, or as many side by side as a window has."""
        return stacked(self.rows, self.basis.window)

    def learn(self, rows: np.ndarray) -> None:
        self.member.detector.learn_many(rows)
        self.rows = np.vstack([self.rows, rows])

    @property
    def shared(self) -> np.ndarray:
        """The inputs that others may know."""
        given = stacked(NOTHING if self.given is None else self.given, self.basis.window)
        return np.delete(given, self.held_back, axis=0)

    def note_given(self) -> None:
        """Takes note of what the member has given away by now: all that it learned, or as before.

        Of windows the guard withholds every w-th since the last time, in the test's own words.
        """
        published, window = self.member.published, self.basis.window
        if published is None or published.learned != len(self.inputs):
            return
        before = len(stacked(NOTHING if self.given is None else self.given, window))
        if self.given is None or before != len(self.inputs):
            least = len(self.inputs) - before
            assert not self.guarded or least >= least_new_rows(self.basis)
            every = (
                range(before + window, len(self.inputs) + 1, window) if self.guarded else range(0)
            )
            most = inputs_held_back(self.basis)
            self.held_back = tuple(number - 1 for number in every[-most:]) if most else ()
            self.given, self.forgot_giving = self.rows, False

    def back_up(self) -> None:
        self.note_given()
        self.backups.append((self.member.to_bytes(), self.rows, self.given, self.held_back))

    def restore(self, back: int) -> None:
        gave, before = self.given is not None, len(self.shared)
        blob, self.rows, self.given, self.held_back = self.backups[-1 - back % len(self.backups)]
        # Under the guard what is held stays, which has rows that the restored state does not know.
        forgot = self.given is None or (self.guarded and len(self.shared) < before)
        self.forgot_giving = (gave or self.forgot_giving) and (self.forgot_giving or forgot)
        self.member = Member.from_bytes(blob)


def require_central_model(device: Device, others: Collection[Device]) -> None:
    """Asserts that the device's model is the one of all these rows in one place."""
    X = np.vstack([device.inputs, *(other.shared for other in others)])
    assert device.member.detector.model.total.count == len(X)
    if device.basis.score == "distance":
        _require_moments(device, X)
    else:
        _require_solution(device, X)


def _require_solution(device: Device, X: np.ndarray) -> None:
    total, layer = device.member.detector.model.total, device.basis.layer
    H = np.tanh(X @ layer.alpha + layer.b)
    np.testing.assert_allclose(total.energy, np.square(X).sum(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(total.U, H.T @ H, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(total.V, H.T @ X, rtol=1e-9, atol=1e-9)
    beta = np.linalg.solve(H.T @ H + 0.1 * np.eye(2), H.T @ X)
    np.testing.assert_allclose(device.member.detector.model.beta, beta, rtol=1e-9, atol=1e-9)


def _require_moments(device: Device, X: np.ndarray) -> None:
    total, basis = device.member.detector.model.total, device.basis
    if not len(X):
        return
    Y = X - total.centre
    H = Y if basis.layer.units >= basis.inputs else Y @ basis.hidden.alpha
    size = np.square(Y).sum()
    for name, expected in (("C", H.T @ Y), ("s", Y.sum(axis=0)), ("e", np.square(Y).sum(axis=0))):
        np.testing.assert_allclose(getattr(total, name), expected, rtol=1e-9, atol=1e-9 * size)
    central = Detector.for_basis(basis).model
    central.learn_all(X)
    there, here = central.scores(X), device.member.detector.model.scores(X)
    np.testing.assert_allclose(here, there, rtol=1e-8, atol=1e-9)


class Fleet(RuleBasedStateMachine):
    """What devices do by themselves, however they reach each other."""

    guarded = False
    charter = CHARTER
    #: How far apart the devices' rows lie.
    apart = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.least = least_new_rows(self.charter.basis) + self.charter.basis.window - 1
        self.devices: dict[str, Device] = {}
        self.rng = np.random.default_rng(1)

    def one(self, number: int) -> Device:
        return list(self.devices.values())[number % len(self.devices)]

    @property
    def inside(self) -> list[Device]:
        return [device for device in self.devices.values() if device.inside]

    @initialize()
    def three_devices(self) -> None:
        for number in range(3):
            self.new_device()
            self.teach(number, self.least)
            self.give(number)

    @precondition(lambda self: len(self.devices) < len(NAMES))
    @rule()
    def new_device(self) -> None:
        name = NAMES[len(self.devices)]
        self.devices[name] = Device(self.charter.start(name), guarded=self.guarded)
        self.devices[name].back_up()

    @rule(number=st.integers(0, 3), times=st.sampled_from([0, 1, 2]))
    def learn(self, number: int, times: int) -> None:
        self.teach(number, times * self.least or 1)

    def teach(self, number: int, count: int) -> None:
        offset = self.apart * (number % max(len(self.devices), 1))
        self.one(number).learn(offset + self.rng.normal(size=(count, 3)))

    @rule(number=st.integers(0, 3))
    def back_up(self, number: int) -> None:
        self.one(number).back_up()

    @rule(number=st.integers(0, 3), back=st.integers(0, 5))
    def restore(self, number: int, back: int) -> None:
        device = self.one(number)
        before = device.rows
        device.restore(back)
        event("a state was lost" if len(before) > len(device.rows) else "a state was reloaded")

    @rule()
    def settle(self) -> None:
        for number, device in enumerate(self.devices.values()):
            if device.inside and device.forgot_giving:
                event("forgot that it ever gave something away")
                self.give(number)
                self.teach(number, device.member.former + self.least)
                self.give(number)
        self.let_everybody_hear()
        for device in self.inside:
            require_central_model(device, [other for other in self.inside if other is not device])
        event(f"settled with {len(self.inside)} inside of {len(self.devices)}")

    def teardown(self) -> None:
        self.settle()

    def give(self, number: int) -> None:
        raise NotImplementedError

    def let_everybody_hear(self) -> None:
        raise NotImplementedError


class Line:
    """The way to an exchange: works, is down, or breaks before the answer arrives."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange, self.charter, self.state = exchange, exchange.charter, "up"

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            if self.state == "down":
                raise Unreachable("the line is down")
            answer = getattr(self.exchange, name)(*arguments, **named)
            if self.state == "breaks":
                raise Unreachable("the line broke before the answer came")
            return answer

        return call


class FleetOnMemory(Fleet):
    """Devices that publish in one place and take the sum of the others."""

    def __init__(self) -> None:
        super().__init__()
        self.exchange = self.make_exchange()

    def make_exchange(self) -> Exchange:
        return MemoryExchange(self.charter)

    def session(self, device: Device, line: str) -> Session:
        way = Line(self.exchange)
        way.state = line
        return Session(
            device.member, way, guarded=self.guarded, save=lambda member: device.back_up()
        )

    def give(self, number: int) -> None:
        self.sync(number, "up")

    @rule(number=st.integers(0, 3), line=st.sampled_from(["up", "up", "down", "breaks"]))
    def sync(self, number: int, line: str) -> None:
        device = self.one(number)
        event(f"{'sync' if device.inside else 'join'} with the line {line}")
        device.inside = True
        try:
            report = self.session(device, line).sync()
        except Unreachable:
            return
        finally:
            device.note_given()
        self.require_what_is_held(device)
        assert report.refusal is None
        assert not self.session(device, "up").sync().updated
        self.require_what_is_held(device)

    @precondition(lambda self: self.inside)
    @rule(number=st.integers(0, 3), line=st.sampled_from(["up", "up", "down", "breaks"]))
    def leave(self, number: int, line: str) -> None:
        device = self.inside[number % len(self.inside)]
        with suppress(Unreachable):  # that is what a bad line is for
            self.session(device, line).leave()
        device.inside = line == "down"
        if line == "breaks":
            # It may have asked first what is held of it, and not come to leaving.
            held = [one for one in self.entries() if one.origin == device.member.name]
            device.inside = not (held and isinstance(held[0], Departure))
        event(f"left with the line {line}")

    def require_what_is_held(self, device: Device) -> None:
        entries = [one for one in self.entries() if one.origin != device.member.name]
        counts = [entry.evidence.count for entry in entries if isinstance(entry, Contribution)]
        assert device.member.detector.model.total.count == len(device.inputs) + sum(counts)

    def entries(self) -> list[Entry]:
        return self.exchange.entries()  # type: ignore[attr-defined, no-any-return]

    def let_everybody_hear(self) -> None:
        for _ in range(2):
            for device in self.inside:
                assert self.session(device, "up").sync().refusal is None
                device.note_given()
        for device in self.inside:
            assert not self.session(device, "up").sync().updated
        listed = {one.origin for one in self.entries() if isinstance(one, Contribution)}
        assert listed == {d.member.name for d in self.inside if d.given is not None}


class InFolder:
    """Put before a fleet on memory: it meets in a folder, through files."""

    charter: Charter

    def make_exchange(self) -> Exchange:
        self.folder = tempfile.TemporaryDirectory()
        FolderExchange.create(Path(self.folder.name), self.charter)
        return FolderExchange(Path(self.folder.name))

    def teardown(self) -> None:
        with self.folder:
            super().teardown()

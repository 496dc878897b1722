"""Offering: what a device gives away is saved before it leaves, or does not leave."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from elmgrove.errors import ElmgroveError
from elmgrove.federation import Contribution, Member, Version, shrinks


class HeldBack(ElmgroveError):
    """Says why nothing new leaves a device: what it would give away can't be saved."""


@contextmanager
def holding_back(member: Member) -> Iterator[None]:
    """Undoes what a member decided to give away inside ``with``, if saving it fails there.

    Raises ``HeldBack`` then: others may know what they knew before, and no more.
    """
    before = member.published, member.lead
    try:
        yield
    except OSError as error:
        member.published, member.lead = before
        raise HeldBack(
            f"nothing new is sent, since it can't be saved: {error.filename}: {error.strerror}"
        ) from error


def offered(member: Member, guarded: bool, save: Callable[[Member], None]) -> Contribution | None:
    """Lets a member offer what it may give away, and saves it before anybody can have it.

    Raises ``HeldBack`` where it can't be saved.
    """
    with holding_back(member):
        before = member.published
        offer = member.offer(guarded=guarded)
        if member.published is not before:
            save(member)
    return offer


def has_fewer_rows(offer: Contribution | None, before: Contribution | None) -> bool:
    """Says whether rows were taken out since the last offer, so that the device has to leave."""
    if offer is None or before is None:
        return False
    return shrinks(_version(before), _version(offer))


def _version(offer: Contribution) -> Version:
    return Version(offer.epoch, offer.evidence.count, "")

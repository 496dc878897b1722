"""Offering: what a device hands over, saved before anybody can have it."""

from collections.abc import Callable

from elmgrove.federation import Contribution, Member, Version, shrinks


def offered(member: Member, guarded: bool, save: Callable[[Member], None]) -> Contribution | None:
    """Lets a member offer what it may give away, and saves it before anybody can have it."""
    before = member.published
    offer = member.offer(guarded=guarded)
    if member.published is not before:
        save(member)
    return offer


def fewer(before: Contribution | None, offer: Contribution | None) -> bool:
    """Says whether an offer stands for fewer rows than the one before: some were taken out."""
    return before is not None and offer is not None and shrinks(_version(before), _version(offer))


def _version(offer: Contribution) -> Version:
    return Version(offer.epoch, offer.evidence.count, "")

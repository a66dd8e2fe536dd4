"""What this process has asked the API server for and has not been told of yet.

A write and the news of it take different ways, and either may arrive first. Whoever counts must
count a claim that is being created before anybody can see it, and must not count one that it has
asked to go although it still looks as if it stayed. Both are known by what cannot be mistaken: a
new claim by the name that was drawn for it, one that goes by its uid.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.times import later

# A claim whose creation got no answer turns up within this time, or was never created
IN_DOUBT: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class ComingClaim:
    """A NodeClaim that is being created."""

    node_pool: str
    replaces: str = ""  # name of the claim whose place it takes, if it takes one
    until: datetime | None = None  # when to give up on one of which nobody knows whether it exists

    def may_come(self, now: datetime) -> bool:
        """Whether it may still turn up."""
        return self.until is None or now < self.until


class Intentions:
    """Claims that come and claims that go, before the API server says so."""

    def __init__(self) -> None:
        self._coming: dict[str, ComingClaim] = {}  # by name
        self._dismissed: set[str] = set()  # uids

    def expect(self, name: str, node_pool: str, replaces: str) -> bool:
        """Count on a claim that is about to be created; say whether that is news."""
        self._coming[name] = ComingClaim(node_pool, replaces)
        return True

    def rename(self, old: str, new: str) -> bool:
        """Expect a claim under another name; say whether it was expected."""
        found = self._coming.pop(old, None)
        if found is None:
            return False
        self._coming[new] = found
        return True

    def doubt(self, name: str, now: datetime) -> bool:
        """Wait a while for a claim whose creation got no answer; say whether it was expected."""
        self._coming = {key: claim for key, claim in self._coming.items() if claim.may_come(now)}
        found = self._coming.get(name)
        if found is None:
            return False
        self._coming[name] = replace(found, until=later(now, IN_DOUBT))
        return True

    def settle(self, name: str) -> bool:
        """Expect a claim no more: it is there, or will never be; say whether it was expected."""
        return self._coming.pop(name, None) is not None

    def dismiss(self, uid: str) -> bool:
        """Count no more on a claim that was asked to go; say whether that is news."""
        is_news = uid not in self._dismissed
        self._dismissed.add(uid)
        return is_news

    def forget(self, uid: str) -> None:
        """Drop what is known about a claim that is gone."""
        self._dismissed.discard(uid)

    def is_expected(self, name: str) -> bool:
        """Whether a claim of this name is being created."""
        return name in self._coming

    @property
    def coming(self) -> Mapping[str, ComingClaim]:
        """The claims that are being created, by name."""
        return dict(self._coming)

    @property
    def dismissed(self) -> frozenset[str]:
        """The uids of claims that were asked to go."""
        return frozenset(self._dismissed)

"""Writes of this process whose watch events have not arrived yet.

The response to a write and its watch event may arrive in either order. A claim that is being
created must be counted before its watch event, and a claim that was deleted must not be counted
although the mirror still shows it. Both are identified unambiguously: a new claim by its generated
name, a deleted one by its uid.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.times import later

# A claim whose creation got no response is seen within this time, or was never created
IN_DOUBT: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class ComingClaim:
    """A NodeClaim that is being created."""

    node_pool: str
    replaces: str = ""  # name of the claim whose place it takes, if it takes one
    until: datetime | None = None  # when to give up on one that may not exist

    def may_come(self, now: datetime) -> bool:
        """Whether its watch event may still arrive."""
        return self.until is None or now < self.until


class Expectations:
    """Claims being created or deleted, before their watch events arrive."""

    def __init__(self) -> None:
        self._coming: dict[str, ComingClaim] = {}  # by name
        self._dismissed: set[str] = set()  # uids

    def expect(self, name: str, node_pool: str, replaces: str) -> bool:
        """Count a claim that is about to be created; return whether that is new."""
        self._coming[name] = ComingClaim(node_pool, replaces)
        return True

    def rename(self, old: str, new: str) -> bool:
        """Expect a claim under another name; return whether it was expected."""
        found = self._coming.pop(old, None)
        if found is None:
            return False
        self._coming[new] = found
        return True

    def doubt(self, name: str, now: datetime) -> bool:
        """Expect a claim whose creation got no response until a deadline; return whether it was."""
        self._coming = {key: claim for key, claim in self._coming.items() if claim.may_come(now)}
        found = self._coming.get(name)
        if found is None:
            return False
        self._coming[name] = replace(found, until=later(now, IN_DOUBT))
        return True

    def settle(self, name: str) -> bool:
        """Stop expecting a claim: it exists, or never will; return whether it was expected."""
        return self._coming.pop(name, None) is not None

    def dismiss(self, uid: str) -> bool:
        """Stop counting a claim whose deletion was requested; return whether that is new."""
        is_news = uid not in self._dismissed
        self._dismissed.add(uid)
        return is_news

    def forget(self, uid: str) -> None:
        """Drop the uid of a claim that is gone."""
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
        """The uids of claims whose deletion was requested."""
        return frozenset(self._dismissed)

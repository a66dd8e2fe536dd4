"""When a node is unhealthy enough to act: a provider's repair policies applied to its conditions.

A condition is covered when some policy names its type and status. All policies of the pair whose
regular expression is found in the condition's reason match it; where none does, the fallback, the
one policy without an expression, does. A match becomes eligible when its toleration is over.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.meta import Condition
from karpenter.api.nodes import Node
from karpenter.api.times import later
from karpenter.cloud.provider import REBOOT_NODE, REPLACE_NODE, RepairPolicy
from karpenter.model.conditions import FALSE, TRUE, UNKNOWN

ACTIONS: Final = (REPLACE_NODE, REBOOT_NODE)  # the more disruptive first
STATUSES: Final = (TRUE, FALSE, UNKNOWN)
HIGHEST_PRIORITY: Final = 100

_NO_TIME: Final = timedelta(0)
_WAIT_WORTH_ONE_RANK: Final = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class RepairMatch:
    """A policy that applies to a condition of a node."""

    policy: RepairPolicy
    condition: Condition
    since: datetime  # when the condition came, or the node, whichever is later
    is_fallback: bool = False

    def eligible_at(self, rebooted_at: datetime | None = None) -> datetime:
        """When the node may be repaired; a restart gives it its whole toleration again."""
        since = self.since if rebooted_at is None else max(self.since, rebooted_at)
        return later(since, self.policy.toleration)


@dataclass(frozen=True, slots=True)
class Repair:
    """What is to be done about a node, and why."""

    action: str
    governing: RepairMatch
    grace_period: timedelta | None  # the shortest any eligible policy sets
    score: float  # nodes with more of it come first


class RepairPolicies:
    """The policies of a provider, which must be valid, ready to be applied."""

    def __init__(self, policies: Sequence[RepairPolicy]) -> None:
        self._covering: dict[tuple[str, str], list[RepairPolicy]] = {}
        self._fallback: RepairPolicy | None = None
        self._expressions: dict[str, re.Pattern[str]] = {}
        for policy in policies:
            pair = (policy.condition_type, policy.condition_status)
            specific = self._covering.setdefault(pair, [])
            if policy.reason_regex:
                specific.append(policy)
                self._expressions[policy.reason_regex] = re.compile(policy.reason_regex)
            else:
                self._fallback = policy
        ranked = sorted({policy.priority for policy in policies})
        self._ranks = {priority: rank for rank, priority in enumerate(ranked)}

    def covers(self, condition: Condition) -> bool:
        """Whether some policy is about conditions of this type and status."""
        return (condition.type, condition.status) in self._covering

    def matches(self, node: Node) -> tuple[RepairMatch, ...]:
        """The policies that apply to a node, eligible or not."""
        return tuple(
            match
            for condition in node.status.conditions
            if self.covers(condition)
            for match in self._of(condition, node.metadata.creation_timestamp)
        )

    def repair(
        self,
        matches: Iterable[RepairMatch],
        *,
        now: datetime,
        rebooted_at: datetime | None = None,
    ) -> Repair | None:
        """The repair that follows from the eligible matches of a node; None without any.

        ``rebooted_at`` is when the last restart of the node ended.
        """
        eligible = [match for match in matches if match.eligible_at(rebooted_at) <= now]
        if not eligible:
            return None
        governing = min(
            eligible,
            key=lambda match: (
                ACTIONS.index(match.policy.action),
                -match.policy.priority,
                match.eligible_at(rebooted_at),
                match.condition.type,
            ),
        )
        bounds = [match.policy.termination_grace_period for match in eligible]
        return Repair(
            action=governing.policy.action,
            governing=governing,
            grace_period=min((bound for bound in bounds if bound is not None), default=None),
            score=max(
                self._ranks[match.policy.priority]
                + (now - match.eligible_at(rebooted_at)) / _WAIT_WORTH_ONE_RANK
                for match in eligible
            ),
        )

    def _of(self, condition: Condition, created: datetime | None) -> Iterator[RepairMatch]:
        moments = [each for each in (condition.last_transition_time, created) if each is not None]
        if not moments:
            return  # without a time the toleration cannot be counted
        since = max(moments)
        specific = [
            policy
            for policy in self._covering[condition.type, condition.status]
            if self._expressions[policy.reason_regex].search(condition.reason)
        ]
        for policy in specific:
            yield RepairMatch(policy, condition, since)
        if not specific and self._fallback is not None:
            yield RepairMatch(self._fallback, condition, since, is_fallback=True)


class RepairMatches:
    """The matches of every node, recomputed only when a relevant field has changed."""

    def __init__(self, policies: RepairPolicies) -> None:
        self._policies = policies
        self._known: dict[str, tuple[object, tuple[RepairMatch, ...]]] = {}  # by node name

    def observe(self, node: Node) -> bool:
        """Update a node, and return whether its matches were recomputed."""
        fingerprint = _fingerprint(node)
        known = self._known.get(node.metadata.name)
        if known is not None and known[0] == fingerprint:
            return False
        self._known[node.metadata.name] = (fingerprint, self._policies.matches(node))
        return True

    def forget(self, name: str) -> None:
        """Take note that a node is gone."""
        self._known.pop(name, None)

    def matches(self, name: str) -> tuple[RepairMatch, ...]:
        """The policies that apply to a node, eligible or not."""
        known = self._known.get(name)
        return () if known is None else known[1]


def violations(policies: Sequence[RepairPolicy]) -> tuple[str, ...]:
    """Everything that keeps a provider's policies from being used, one sentence each."""
    if not policies:
        return ("the provider has no repair policies, so NodeRepair must be off",)
    found = [
        f"repair policy {position}: {problem}"
        for position, policy in enumerate(policies, start=1)
        for problem in _problems(policy)
    ]
    fallbacks = [policy for policy in policies if not policy.reason_regex]
    if len(fallbacks) != 1:
        found.append(
            f"exactly one repair policy must have no reason regex, not {len(fallbacks)};"
            " it is the fallback"
        )
    found.extend(
        f"the fallback repair policy must have the action {REPLACE_NODE}, not {policy.action}"
        for policy in fallbacks
        if policy.action != REPLACE_NODE
    )
    return tuple(found)


def _problems(policy: RepairPolicy) -> Iterator[str]:
    if not policy.condition_type:
        yield "the condition type is missing"
    if policy.condition_status not in STATUSES:
        yield f"the status must be one of {', '.join(STATUSES)}, not {policy.condition_status!r}"
    if policy.toleration < _NO_TIME:
        yield "the toleration must not be negative"
    bound = policy.termination_grace_period
    if bound is not None and bound < _NO_TIME:
        yield "the termination grace period must not be negative"
    if not 0 <= policy.priority <= HIGHEST_PRIORITY:
        yield f"the priority must be within 0 and {HIGHEST_PRIORITY}, not {policy.priority}"
    if policy.action not in ACTIONS:
        yield f"the action must be one of {', '.join(ACTIONS)}, not {policy.action!r}"
    try:
        re.compile(policy.reason_regex)
    except re.error as error:
        yield f"the reason regex {policy.reason_regex!r} is wrong: {error}"


def _fingerprint(node: Node) -> object:
    """What matches depend on; heartbeats and messages are no part of it."""
    return node.metadata.creation_timestamp, tuple(
        (each.type, each.status, each.reason, each.last_transition_time)
        for each in node.status.conditions
    )

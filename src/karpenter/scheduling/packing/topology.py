"""Counting pods per domain, and which domains and hosts are still open to a pod.

Notation
    domain   a value of a group's label, such as a zone
    host     the special case of the hostname label: every node and every planned claim is a domain
             of its own, so counts are kept by position and open hosts are found with bit masks
    levels   ``levels[n]`` holds the hosts with more than ``n`` counted pods

Nothing here depends on which instance types exist; the caller skips a domain that nothing can be
launched in, while the skew is computed over all known domains.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from karpenter.api.nodes import Taint
from karpenter.model.labels import HOSTNAME
from karpenter.model.requirement import Requirement
from karpenter.model.requirements import Requirements
from karpenter.scheduling.compiled.topology_groups import EVERY_NODE, Group, GroupKind

_COUNTED_WHEREVER_POSSIBLE: Final = (GroupKind.ANTI_AFFINITY, GroupKind.INVERSE)


class HostCounts:
    """Counted pods per host, for hosts that are numbered from zero."""

    __slots__ = ("_counts", "levels")

    def __init__(self) -> None:
        """Begin with no pods anywhere."""
        self._counts: dict[int, int] = {}
        self.levels: list[int] = []

    def add(self, host: int, pods: int) -> None:
        """Count more pods on a host."""
        before = self._counts.get(host, 0)
        self._counts[host] = before + pods
        bit = 1 << host
        for level in range(before, before + pods):
            if level < len(self.levels):
                self.levels[level] |= bit
            else:
                self.levels.append(bit)

    def remove(self, host: int) -> None:
        """Count one pod less on a host that has some."""
        self._counts[host] -= 1
        self.levels[self._counts[host]] &= ~(1 << host)

    def above(self, pods: int) -> int:
        """Hosts with more than ``pods`` counted pods."""
        return self.levels[pods] if pods < len(self.levels) else 0

    def of(self, host: int) -> int:
        """How many pods are counted on a host."""
        return self._counts.get(host, 0)

    @property
    def total(self) -> int:
        """How many pods are counted on all hosts together."""
        return sum(self._counts.values())

    def copy(self) -> "HostCounts":
        """Return counts that can be changed without changing these."""
        twin = HostCounts()
        twin._counts = self._counts.copy()
        twin.levels = self.levels.copy()
        return twin


class GroupState:
    """How many pods of one group are where."""

    __slots__ = ("_filter", "claims", "counts", "group", "is_hostname", "is_void", "nodes")

    def __init__(self, group: Group, domains: Iterable[str] = ()) -> None:
        """Begin with no pods in each of the known domains."""
        self.group = group
        self.is_void = False  # an inverse group without a placed pod that states the rule
        self.is_hostname = group.key == HOSTNAME
        self._filter = group.node_filter
        self.counts: dict[str, int] = dict.fromkeys(domains, 0)  # domain -> counted pods
        self.nodes = HostCounts()
        self.claims = HostCounts()

    def copy(self) -> "GroupState":
        """Return a state that can be changed without changing this one."""
        twin = GroupState(self.group)
        twin.counts = self.counts.copy()
        twin.nodes = self.nodes.copy()
        twin.claims = self.claims.copy()
        return twin

    @property
    def total(self) -> int:
        """How many pods are counted anywhere."""
        return sum(self.counts.values()) + self.nodes.total + self.claims.total

    def add(self, domain: str, pods: int = 1) -> None:
        """Count more pods in a domain, which may be a new one."""
        self.counts[domain] = self.counts.get(domain, 0) + pods

    def admits(self, node: Requirements, taints: tuple[Taint, ...]) -> bool:
        """Whether pods on a machine or claim like this are counted at all."""
        return self._filter is EVERY_NODE or self._filter.admits(node, taints)

    def count_claim(self, index: int, node: Requirements, taints: tuple[Taint, ...]) -> None:
        """Count a pod that joined a claim, in its domain or in every one that is still possible."""
        if self._filter is not EVERY_NODE and not self._filter.admits(node, taints):
            return
        if self.is_hostname:
            self.claims.add(index, 1)
            return
        held = node.get(self.group.key)
        if held is None or held.complement:
            return
        if len(held.values) == 1 or self.group.kind in _COUNTED_WHEREVER_POSSIBLE:
            for domain in held.values:
                self.add(domain)


@dataclass(frozen=True, slots=True)
class Membership:
    """A pod's membership in a group: the domains it allows, and whether the group counts it."""

    number: int  # of the group
    allowed: Requirement  # the domains the pod itself allows
    counts_itself: bool


class Choice(NamedTuple):
    """The domains of one label that are open to a pod, best first; ``pin`` means take just one."""

    key: str
    domains: tuple[str, ...]
    pin: bool
    counts: tuple[int, ...] = ()  # of each domain, where some are better than others
    slack: int | None = None  # most pods above the best open domain; None means any


class Hosts(NamedTuple):
    """The hosts open to a pod: masks over nodes and claims, and whether a new host is allowed."""

    nodes: int
    claims: int
    new: bool


@dataclass(frozen=True, slots=True)
class Closed:
    """No domain of a group is open to a pod."""

    group: Group
    allowed: Requirement
    counts: Mapping[str, int]

    def __str__(self) -> str:
        """The refusal in one phrase, with the counts that led to it."""
        shown = ", ".join(f"{domain}={count}" for domain, count in sorted(self.counts.items())[:8])
        rule = ""
        if self.group.kind is GroupKind.SPREAD:
            rule = f" maxSkew {self.group.max_skew}"
            rule += f" minDomains {self.group.min_domains}" if self.group.min_domains else ""
        return (
            f"{self.group.kind.value} over {self.group.key}{rule} leaves no domain"
            f" (counts: {shown or 'no domain is known'}; the pod allows {self.allowed})"
        )


def open_hosts(states: Sequence[GroupState], memberships: Iterable[Membership]) -> Hosts | Closed:
    """Find the hosts that satisfy every hostname group a pod belongs to."""
    nodes = claims = -1
    new = True
    for member in memberships:
        state = states[member.number]
        kind = state.group.kind
        if kind is GroupKind.SPREAD:
            most = state.group.max_skew - member.counts_itself
            if most < 0:
                return Closed(state.group, member.allowed, {})  # a maxSkew of zero allows no pod
            nodes &= ~state.nodes.above(most)
            claims &= ~state.claims.above(most)
        elif kind is GroupKind.AFFINITY:
            occupied = state.nodes.above(0), state.claims.above(0)
            if any(occupied):
                nodes &= occupied[0]
                claims &= occupied[1]
                new = False
            elif not member.counts_itself:
                return Closed(state.group, member.allowed, {})
        else:
            nodes &= ~state.nodes.above(0)
            claims &= ~state.claims.above(0)
    return Hosts(nodes, claims, new)


def open_domains(
    states: Sequence[GroupState], memberships: Iterable[Membership]
) -> list[Choice] | Closed:
    """Find, for each label, the domains that satisfy every group a pod belongs to."""
    choices: dict[str, Choice] = {}
    for member in memberships:
        state = states[member.number]
        if state.is_void:
            continue
        choice = _open_in(state, member)
        if choice is None:
            return Closed(state.group, member.allowed, state.counts)
        before = choices.get(choice.key)
        if before is not None:
            choice = _both(before, choice)
            if not choice.domains:
                return Closed(state.group, member.allowed, state.counts)
        choices[choice.key] = choice
    return list(choices.values())


def _open_in(state: GroupState, member: Membership) -> Choice | None:
    group = state.group
    known = state.counts
    if not member.allowed.allows_anything:
        known = {domain: n for domain, n in known.items() if member.allowed.has(domain)}
    if group.kind is GroupKind.SPREAD:
        if not known:
            return None
        least = 0 if group.min_domains > len(known) else min(known.values())
        most = least + group.max_skew - member.counts_itself
        within = sorted([(count, domain) for domain, count in known.items() if count <= most])
        if not within:
            return None
        domains = tuple([domain for _, domain in within])
        if within[0][0] == within[-1][0]:
            return Choice(group.key, domains, True)
        return Choice(group.key, domains, True, tuple([count for count, _ in within]))
    if group.kind is GroupKind.AFFINITY:
        occupied = sorted([domain for domain, count in known.items() if count])
        if occupied:
            return Choice(group.key, tuple(occupied), False)
        if not member.counts_itself:
            return None
        return Choice(group.key, tuple(sorted(known)), True) if known else None
    empty = sorted([domain for domain, count in known.items() if not count])
    return Choice(group.key, tuple(empty), False) if empty else None


def _both(left: Choice, right: Choice) -> Choice:
    first, second = (right, left) if right.pin and not left.pin else (left, right)
    common = tuple(domain for domain in first.domains if domain in second.domains)
    count_of = dict(zip(first.domains, first.counts, strict=bool(first.counts)))
    counts = tuple(count_of[domain] for domain in common) if count_of else ()
    return Choice(left.key, common, left.pin or right.pin, counts)

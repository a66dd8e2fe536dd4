"""Checks hard topology spread in a finished plan, without knowing in which order it was made.

The rule is about the moment a pod is placed: its domain may hold at most maxSkew pods more than the
domain with the fewest. Only the pod that was placed last in a domain needs to be checked, because
counts never fall meanwhile: its domain held all the others, and the lowest count was at most what
it is in the end. Pods that the selector matches but that do not have the rule may have come before
or after. They are counted in favour of the plan: for the lowest count, not for the domain.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from karpenter.api.pods import Pod, Toleration, TopologySpreadConstraint
from karpenter.api.selectors import LabelSelector, LabelSelectorRequirement
from karpenter.checker.inputs import Cluster, Rule, Violation, pod_name
from karpenter.checker.labels import (
    HOSTNAME,
    Demand,
    about,
    demand_of,
    node_alternatives,
    selected,
    stable,
    trials,
    untolerated,
)
from karpenter.checker.launch_options import pool_demands
from karpenter.checker.machines import is_leaving
from karpenter.checker.neighbours import Standing, alike
from karpenter.checker.places import ExistingPlace, Place

_TOLERATE_SOFT = Toleration(operator="Exists", effect="PreferNoSchedule")


def spread_violations(cluster: Cluster, everyone: Sequence[Standing]) -> Iterator[Violation]:
    """Yield the placed pods that break their own hard spread."""
    for owner in everyone:
        if owner.is_bound:
            continue
        for constraint in constraints_of(cluster, owner.pod):
            if constraint.when_unsatisfiable == "ScheduleAnyway":
                continue
            if constraint.label_selector is None:
                continue  # without a selector it counts no pods
            problem = _problem(cluster, owner, constraint, everyone)
            if problem:
                yield Violation(Rule.SPREAD, pod_name(owner.pod), problem)


def constraints_of(cluster: Cluster, pod: Pod) -> Sequence[TopologySpreadConstraint]:
    """A pod's own constraints or, when it has none, those of the cluster."""
    own = pod.spec.topology_spread_constraints
    return own or cluster.default_spread.get(pod.metadata.uid, ())


def _problem(
    cluster: Cluster,
    owner: Standing,
    constraint: TopologySpreadConstraint,
    everyone: Sequence[Standing],
) -> str:
    key = stable(constraint.topology_key)
    domains = owner.place.values(key)
    if len(domains) != 1:
        return f"{key} of {owner.place.name} is left open: {sorted(domains)}"
    (domain,) = domains
    alternatives = node_alternatives(owner.pod.spec)
    equivalent = [
        other
        for other in everyone
        if not other.is_bound and other.place.values(key) == domains and alike(owner.pod, other.pod)
    ]
    # Which pod was placed last, and how many preferences it had dropped by then, is unknown: one
    # combination that satisfies the rule is enough
    for last, dropped, tolerates_soft in product(
        equivalent, range(len(alternatives)), (False, True)
    ):
        if last.place.surely(alternatives[dropped]):
            view = _ConstraintOfPod(cluster, last.pod, constraint, key, dropped, tolerates_soft)
            if view.is_within_skew(domain, everyone):
                return ""
    return f"{key} {domain} holds too many for maxSkew {constraint.max_skew}"


@dataclass(frozen=True)
class _ConstraintOfPod:
    """One constraint as it counts for one pod, after some of its preferences were dropped."""

    cluster: Cluster
    pod: Pod
    constraint: TopologySpreadConstraint
    key: str
    dropped: int  # how many of its alternative node selector terms the pod has dropped
    tolerates_soft: bool  # whether it tolerates PreferNoSchedule taints by then

    def is_within_skew(self, domain: str, everyone: Sequence[Standing]) -> bool:
        """Whether the rule allowed the pod as the last one in ``domain``."""
        counts: Counter[str] = Counter()
        known = self._domains()  # those that exist without the pods of this plan
        in_domain = 0
        for other in everyone:
            if other.is_leaving or not self._matches(other.pod):
                continue
            where = other.place.likely(self.key)
            if where is not None and self._includes(other.place, for_sure=False):
                counts[where] += 1
                if other.is_bound:
                    known.add(where)
            if (
                other.place.values(self.key) == {domain}
                and self._includes(other.place, for_sure=True)
                and (other.is_bound or (self._matches(self.pod) and alike(self.pod, other.pod)))
            ):
                in_domain += 1
        if self.key == HOSTNAME:
            return in_domain <= self.constraint.max_skew
        allowed = {value for value in {*known, *counts} if self._allows_domain(value)}
        if (self.constraint.min_domains or 0) > len(allowed):
            return in_domain <= self.constraint.max_skew
        # A domain that this plan has opened may not have existed yet, so it lowers no count
        compared = (allowed & known) or allowed
        return (
            bool(compared)
            and in_domain - min(counts[v] for v in compared) <= self.constraint.max_skew
        )

    def _matches(self, other: Pod) -> bool:
        mine = self.pod.metadata
        if (other.metadata.namespace or "default") != (mine.namespace or "default"):
            return False
        selector = self.constraint.label_selector or LabelSelector()
        revisions = tuple(
            LabelSelectorRequirement(key=key, operator="In", values=(mine.labels[key],))
            for key in self.constraint.match_label_keys
            if key in mine.labels
        )
        return selected(selector, other.metadata.labels) and selected(
            LabelSelector(match_expressions=revisions), other.metadata.labels
        )

    def _allows_domain(self, domain: str) -> bool:
        asked = node_alternatives(self.pod.spec)[self.dropped]
        return all(one.allows(domain) for one in about(self.key, asked))

    def _includes(self, place: Place, *, for_sure: bool) -> bool:
        honours_taints = self.constraint.node_taints_policy == "Honor"
        if honours_taints and untolerated(place.taints, self._tolerations, soft_too=True):
            return False
        if self.constraint.node_affinity_policy == "Ignore":
            return True
        held = place.surely if for_sure else place.perhaps
        return any(held(asked) for asked in node_alternatives(self.pod.spec))

    @property
    def _tolerations(self) -> tuple[Toleration, ...]:
        return (
            (*self.pod.spec.tolerations, _TOLERATE_SOFT)
            if self.tolerates_soft
            else self.pod.spec.tolerations
        )

    def _domains(self) -> set[str]:
        found: set[str] = set()
        for pool in self.cluster.pools:
            taints = pool.node_pool.spec.template.spec.taints
            honours_taints = self.constraint.node_taints_policy == "Honor"
            if honours_taints and untolerated(taints, self._tolerations, soft_too=True):
                continue
            own = about(self.key, pool_demands(pool.node_pool))
            found |= _allowed_values([own])
            found |= _allowed_values(
                [*own, *(demand_of(held) for held in t.requirements if held.key == self.key)]
                for t in pool.instance_types
            )
        for machine in self.cluster.machines:
            place = ExistingPlace(machine, (), ())
            if machine.node is not None and not is_leaving(machine):
                value = place.likely(self.key)
                if value is not None and self._includes(place, for_sure=False):
                    found.add(value)
        return found


def _allowed_values(groups: Iterable[Sequence[Demand]]) -> set[str]:
    """The values that satisfy all demands of a group, for groups that list their values."""
    return {
        value
        for demands in groups
        if any(one.is_closed for one in demands)
        for value in trials(demands)
        if value is not None and all(one.allows(value) for one in demands)
    }

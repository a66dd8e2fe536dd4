"""Hard topology spread, checked for the moment when the last pod was placed in a domain.

Counts only grow while pods are placed, and equivalent pods compute the same skew. So when the last
of them was placed in a domain, the lowest count was at most its final value, and the domain then
held them all. Pods that are counted without having the rule may have been placed before or after:
in favour of the plan, they raise the lowest count but not the domain's own.
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

_SOFT = Toleration(operator="Exists", effect="PreferNoSchedule")


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
    twins = [
        other
        for other in everyone
        if not other.is_bound and other.place.values(key) == domains and alike(owner.pod, other.pod)
    ]
    # which pod was placed last, and at which stage of relaxation, is unknown: try all
    for last, dropped, is_soft in product(twins, range(len(alternatives)), (False, True)):
        if last.place.surely(alternatives[dropped]):
            view = _View(cluster, last.pod, constraint, key, dropped, is_soft)
            if view.is_even(domain, everyone):
                return ""
    return f"{key} {domain} holds too many for maxSkew {constraint.max_skew}"


@dataclass(frozen=True)
class _View:
    """The counts of one pod's constraint, at one stage of relaxation."""

    cluster: Cluster
    pod: Pod
    constraint: TopologySpreadConstraint
    key: str
    dropped: int  # how many alternatives the pod has given up
    is_soft: bool  # whether it has come to tolerate soft taints

    def is_even(self, domain: str, everyone: Sequence[Standing]) -> bool:
        """Whether the skew allowed the last pod in ``domain``."""
        counts: Counter[str] = Counter()
        known = self._domains()  # without domains that exist only by a pod of this plan
        here = 0
        for other in everyone:
            if other.is_leaving or not self._counts(other.pod):
                continue
            where = other.place.likely(self.key)
            if where is not None and self._sees(other.place, for_sure=False):
                counts[where] += 1
                if other.is_bound:
                    known.add(where)
            if (
                other.place.values(self.key) == {domain}
                and self._sees(other.place, for_sure=True)
                and (other.is_bound or (self._counts(self.pod) and alike(self.pod, other.pod)))
            ):
                here += 1
        if self.key == HOSTNAME:
            return here <= self.constraint.max_skew
        allowed = {value for value in {*known, *counts} if self._allows(value)}
        if (self.constraint.min_domains or 0) > len(allowed):
            return here <= self.constraint.max_skew
        judged = (allowed & known) or allowed
        return bool(judged) and here - min(counts[v] for v in judged) <= self.constraint.max_skew

    def _counts(self, other: Pod) -> bool:
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

    def _allows(self, domain: str) -> bool:
        asked = node_alternatives(self.pod.spec)[self.dropped]
        return all(one.allows(domain) for one in about(self.key, asked))

    def _sees(self, place: Place, *, for_sure: bool) -> bool:
        honours_taints = self.constraint.node_taints_policy == "Honor"
        if honours_taints and untolerated(place.taints, self._tolerations, soft_too=True):
            return False
        if self.constraint.node_affinity_policy == "Ignore":
            return True
        held = place.surely if for_sure else place.perhaps
        return any(held(asked) for asked in node_alternatives(self.pod.spec))

    @property
    def _tolerations(self) -> tuple[Toleration, ...]:
        return (*self.pod.spec.tolerations, _SOFT) if self.is_soft else self.pod.spec.tolerations

    def _domains(self) -> set[str]:
        found: set[str] = set()
        for pool in self.cluster.pools:
            taints = pool.node_pool.spec.template.spec.taints
            honours_taints = self.constraint.node_taints_policy == "Honor"
            if honours_taints and untolerated(taints, self._tolerations, soft_too=True):
                continue
            own = about(self.key, pool_demands(pool.node_pool))
            found |= _listed([own])
            found |= _listed(
                [*own, *(demand_of(held) for held in t.requirements if held.key == self.key)]
                for t in pool.instance_types
            )
        for machine in self.cluster.machines:
            place = ExistingPlace(machine, (), ())
            if machine.node is not None and not is_leaving(machine):
                value = place.likely(self.key)
                if value is not None and self._sees(place, for_sure=False):
                    found.add(value)
        return found


def _listed(parties: Iterable[Sequence[Demand]]) -> set[str]:
    return {
        value
        for demands in parties
        if any(one.is_closed for one in demands)
        for value in trials(demands)
        if value is not None and all(one.allows(value) for one in demands)
    }

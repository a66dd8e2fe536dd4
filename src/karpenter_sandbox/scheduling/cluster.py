"""The cluster as the scheduler keeps it: nodes with their pods, and counts of pods by node.

Nothing is recomputed that has not changed. Every change of a node, or of the pods on it, appends
the node's name to a log; caches per node catch up from their last position in it.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, Literal, TypeVar

from karpenter_sandbox.matching import NOTHING, Selector
from karpenter_sandbox.scheduling.nodes import NodeFacts, NodeState
from karpenter_sandbox.scheduling.shapes import AffinityTerm, Labels, PodInfo

K = TypeVar("K", str, int)
# A volume and the CSI driver that attaches it
AttachedVolume = tuple[str, str]
TermRole = Literal["anti", "near", "preferred"]

_LONGEST_LOG: Final = 50_000
_MOST_UNUSED_HOLDERS: Final = 256
# The score weight of an existing pod's required affinity for the pod to be placed
_REQUIRED_AFFINITY_WEIGHT: Final = 1
_NO_LABELS: Final[Mapping[str, str]] = {}


class PodCounter:
    """How many pods on each node a predicate holds for."""

    __slots__ = ("asks", "by_node", "users")

    def __init__(self, asks: Callable[[PodInfo], bool]) -> None:
        self.asks = asks
        self.by_node: dict[str, int] = {}
        self.users = 0


class Holder:
    """How many pods on each node have an affinity term that restricts other pods."""

    __slots__ = ("by_node", "role", "term", "total", "weight")

    def __init__(self, role: TermRole, weight: int, term: AffinityTerm) -> None:
        self.role = role
        self.weight = weight
        self.term = term
        self.by_node: dict[str, int] = {}
        self.total = 0

    def times_in(self, pod: PodInfo) -> int:
        """How often a pod has this term."""
        return _terms(pod).count((self.role, self.weight, self.term))


class Cluster:
    """Nodes, the pods on them, and what is counted about them."""

    def __init__(
        self, volumes_of: Callable[[PodInfo], tuple[AttachedVolume, ...]] = lambda pod: ()
    ) -> None:
        self.nodes: dict[str, NodeState] = {}
        self.pods: dict[str, PodInfo] = {}  # uid -> pod on a node
        self.priorities: dict[int, int] = {}  # priority -> pods on nodes
        self.namespaces: dict[str, Labels] = {}
        self.first = 0  # position of log[0] since the beginning
        self.log: list[str] = []
        self.epoch = 0  # incremented to invalidate what is derived from terms and namespaces
        self._volumes_of = volumes_of
        self._limits: dict[str, Mapping[str, int]] = {}
        self._homeless: dict[str, dict[str, PodInfo]] = {}  # node that does not exist -> its pods
        self._nominations: dict[str, str] = {}  # uid -> node it waits for
        self._attached: dict[str, tuple[AttachedVolume, ...]] = {}  # uid -> its volumes
        self._counters: dict[Hashable, PodCounter] = {}
        self._holders: dict[tuple[TermRole, int, AffinityTerm], Holder] = {}
        self._counted: dict[Hashable, tuple[PodCounter, ...]] = {}  # by namespace and labels
        self._matching_holders: dict[Hashable, tuple[Holder, ...]] = {}  # by namespace and labels
        self._selects_namespaces = False  # whether any term selects namespaces by their labels

    @property
    def position(self) -> int:
        """Where the log ends."""
        return self.first + len(self.log)

    def changed_since(self, position: int) -> Iterable[str] | None:
        """Nodes that changed after ``position``, or None when that is too long ago."""
        if position < self.first:
            return None
        return dict.fromkeys(self.log[position - self.first :])

    def set_node(self, facts: NodeFacts) -> bool:
        """Add or update a node; return whether anything relevant has changed."""
        node = self.nodes.get(facts.name)
        if node is None:
            node = self.nodes[facts.name] = NodeState(facts)
            node.limits = self._limits.get(facts.name, {})
            for pod in self._homeless.pop(facts.name, {}).values():
                self._add(pod)
        elif node.facts.says_the_same(facts):
            return False
        node.facts = facts
        self._changed(facts.name)
        return True

    def remove_node(self, name: str) -> None:
        """Drop a node; its pods are remembered in case it comes back."""
        node = self.nodes.get(name)
        if node is None:
            return
        pods = list(node.pods.values())
        for pod in pods:
            self._remove(pod)
        del self.nodes[name]
        for pod in pods:
            self._homeless.setdefault(name, {})[pod.uid] = pod
            self.pods[pod.uid] = pod
        self._changed(name)

    def set_limits(self, name: str, limits: Mapping[str, int]) -> None:
        """Set how many volumes each CSI driver can attach to a node; no limits remove them."""
        if limits:
            self._limits[name] = limits
        else:
            self._limits.pop(name, None)
        node = self.nodes.get(name)
        if node is not None and node.limits != limits:
            node.limits = limits
            self._changed(name)

    def set_namespace(self, name: str, labels: Labels | None) -> None:
        """Add, update or remove a namespace."""
        if self.namespaces.get(name) == labels:
            return
        if labels is None:
            del self.namespaces[name]
        else:
            self.namespaces[name] = labels
        if self._selects_namespaces:
            self._recount()

    def set_pod(self, pod: PodInfo) -> None:
        """Add or update a bound pod."""
        known = self.pods.get(pod.uid)
        if known is not None:
            if _counts_the_same(known, pod):
                self._swap(known, pod)
                return
            self.remove_pod(pod.uid)
        self.drop_nomination(pod.uid)
        self._add(pod)

    def remove_pod(self, uid: str) -> PodInfo | None:
        """Drop a pod and return it, if it was on a node."""
        pod = self.pods.get(uid)
        if pod is None:
            return None
        homeless = self._homeless.get(pod.node_name, {})
        if uid in homeless:
            del homeless[uid], self.pods[uid]
            if not homeless:
                del self._homeless[pod.node_name]
        else:
            self._remove(pod)
        return pod

    def nominate(self, pod: PodInfo, name: str) -> None:
        """Keep room on a node for a pod that waits for others to leave it."""
        self.drop_nomination(pod.uid)
        node = self.nodes.get(name)
        if node is not None:
            node.nominated[pod.uid] = pod
            self._nominations[pod.uid] = name
            self._changed(name)

    def drop_nomination(self, uid: str) -> str:
        """Stop keeping room for a pod; return the node it waited for, or ""."""
        name = self._nominations.pop(uid, "")
        node = self.nodes.get(name)
        if node is not None and node.nominated.pop(uid, None) is not None:
            self._changed(name)
        return name

    def spread_counter(self, namespace: str, selector: Selector) -> PodCounter:
        """Count the pods of a namespace that a spread constraint means and that are to stay."""

        def counts(pod: PodInfo) -> bool:
            # an empty selector counts no pods here, as in kube-scheduler
            return (
                pod.key[0] == namespace
                and not pod.is_terminating
                and not selector.is_empty
                and selector.matches(pod.labels)
            )

        return self._counter(("spread", namespace, selector), counts)

    def affinity_counter(self, terms: tuple[AffinityTerm, ...]) -> PodCounter:
        """Count the pods that every one of ``terms`` means."""
        self._note(terms)

        def counts(pod: PodInfo) -> bool:
            return all(self.is_meant(term, pod.key[0], pod.labels) for term in terms)

        return self._counter(("affinity", terms), counts)

    def release(self, counters: Iterable[PodCounter]) -> None:
        """Drop a counter that is no longer used."""
        for counter in counters:
            counter.users -= 1
        kept = {key: counter for key, counter in self._counters.items() if counter.users > 0}
        if len(kept) < len(self._counters):
            self._counters = kept
            self._counted.clear()

    def is_meant(self, term: AffinityTerm, namespace: str, labels: Labels) -> bool:
        """Whether a term means a pod with these labels in that namespace."""
        return term.covers(namespace, labels, self.namespaces.get(namespace, _NO_LABELS))

    def holders_matching(self, namespace: str, labels: Labels) -> tuple[Holder, ...]:
        """The affinity terms of pods on nodes that mean a pod with these labels."""
        key = _label_key(namespace, labels)
        matching = self._matching_holders.get(key)
        if matching is None:
            matching = self._matching_holders[key] = tuple(
                holder
                for holder in self._holders.values()
                if self.is_meant(holder.term, namespace, labels)
            )
        return matching

    def _counter(self, key: Hashable, asks: Callable[[PodInfo], bool]) -> PodCounter:
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = PodCounter(asks)
            self._counted.clear()
            for node in self.nodes.values():
                found = sum(1 for pod in node.pods.values() if asks(pod))
                if found:
                    counter.by_node[node.facts.name] = found
        counter.users += 1
        return counter

    def _add(self, pod: PodInfo) -> None:
        node = self.nodes.get(pod.node_name)
        self.pods[pod.uid] = pod
        if node is None:
            self._homeless.setdefault(pod.node_name, {})[pod.uid] = pod
            return
        node.add(pod)
        self._count(pod, 1)
        self._attached[pod.uid] = self._volumes_of(pod) if pod.claims else ()
        for volume, driver in self._attached[pod.uid]:
            _bump(node.volumes, volume, 1)
            if node.volumes[volume] == 1:
                _bump(node.drivers, driver, 1)
        self._changed(pod.node_name)

    def _remove(self, pod: PodInfo) -> None:
        node = self.nodes[pod.node_name]
        node.remove(pod)
        del self.pods[pod.uid]
        self._count(pod, -1)
        for volume, driver in self._attached.pop(pod.uid):
            _bump(node.volumes, volume, -1)
            if volume not in node.volumes:
                _bump(node.drivers, driver, -1)
        self._changed(pod.node_name)

    def _swap(self, known: PodInfo, pod: PodInfo) -> None:
        self.pods[pod.uid] = pod
        node = self.nodes.get(pod.node_name)
        if node is not None and pod.uid in node.pods:
            node.pods[pod.uid] = pod
        else:
            self._homeless[known.node_name][pod.uid] = pod

    def _count(self, pod: PodInfo, sign: int) -> None:
        _bump(self.priorities, pod.shape.priority, sign)
        for counter in self._counters_of(pod):
            _bump(counter.by_node, pod.node_name, sign)
        for role, weight, term in _terms(pod):
            holder = self._holders.get((role, weight, term))
            if holder is None:
                holder = self._holders[role, weight, term] = Holder(role, weight, term)
                self._note((term,))
                self._matching_holders.clear()
            _bump(holder.by_node, pod.node_name, sign)
            holder.total += sign

    def _counters_of(self, pod: PodInfo) -> tuple[PodCounter, ...]:
        if not self._counters:
            return ()
        key = (pod.is_terminating, _label_key(pod.key[0], pod.labels))
        counters = self._counted.get(key)
        if counters is None:
            counters = tuple(c for c in self._counters.values() if c.asks(pod))
            self._counted[key] = counters
        return counters

    def _note(self, terms: tuple[AffinityTerm, ...]) -> None:
        if any(term.namespace_selector != NOTHING for term in terms):
            self._selects_namespaces = True

    def _recount(self) -> None:
        """Recompute everything that depends on the labels of namespaces."""
        self.epoch += 1
        self._counted.clear()
        self._matching_holders.clear()
        self._counters.clear()

    def _changed(self, name: str) -> None:
        self.log.append(name)
        if len(self.log) > _LONGEST_LOG:
            half = len(self.log) // 2
            self.first += half
            del self.log[:half]
            self._tidy()

    def _tidy(self) -> None:
        """Drop terms that no pod has any more, and clear the caches by labels."""
        used = {key: holder for key, holder in self._holders.items() if holder.total}
        if len(self._holders) - len(used) > _MOST_UNUSED_HOLDERS:
            self._holders = used
        self._counted.clear()
        self._matching_holders.clear()


def _terms(pod: PodInfo) -> list[tuple[TermRole, int, AffinityTerm]]:
    shape = pod.shape
    if not (shape.anti_affinity or shape.affinity or shape.preferences):
        return []
    terms: list[tuple[TermRole, int, AffinityTerm]] = []
    terms += [("anti", 0, term) for term in shape.anti_affinity]
    terms += [("near", _REQUIRED_AFFINITY_WEIGHT, term) for term in shape.affinity]
    terms += [("preferred", preference.weight, preference.term) for preference in shape.preferences]
    return terms


def _counts_the_same(known: PodInfo, pod: PodInfo) -> bool:
    return (
        known.node_name == pod.node_name
        and known.shape is pod.shape
        and known.is_terminating == pod.is_terminating
        and known.labels == pod.labels
    )


def _label_key(namespace: str, labels: Labels) -> Hashable:
    return namespace, tuple(sorted(labels.items()))


def _bump(counts: dict[K, int], key: K, amount: int) -> None:
    left = counts.get(key, 0) + amount
    if left:
        counts[key] = left
    else:
        del counts[key]

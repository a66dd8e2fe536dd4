"""What each machine of a cluster pays too much: its price less the shares of its pods.

The shares are those that prove the lower bound: dollars per hour for every pod, such that the pods
that fit on one machine never pay more than its price. So a machine whose pods pay its whole price
is well bought, and what a machine pays beyond that is its excess.

All machines of our pools are rented anew for the bound: each is also a size of which there is one,
at its own price, since a plan may keep it. Machines that are not ours, or whose price is unknown,
keep their pods, and their free room costs nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from karpenter.api.pods import Pod
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.costs import price_of
from karpenter.scheduling.attempt import HasTime, always
from karpenter.scheduling.bound import FreeRoom, offering_masks
from karpenter.scheduling.cheapest.cluster_bound import Proof, proof_of
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.compiled.pod_classes import PodClass, class_key
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.compiled.share_cache import KnownShares, ShareCache
from karpenter.scheduling.problem import PackingMode
from karpenter.scheduling.solve import free_room, solve
from karpenter.state.departing_pods import is_reschedulable
from karpenter.state.nodes import StateNode
from karpenter.state.pods import key_of

_WELL_BOUGHT: Final = 1e-6  # dollars per hour that are rounding


@dataclass(frozen=True, slots=True)
class MachineExcess:
    """What one machine costs, and what its pods pay of it."""

    machine: StateNode
    price: float  # dollars per hour
    shares: float  # of its pods
    pods: tuple[Pod, ...]  # those that would run elsewhere without it

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.machine.name

    @property
    def excess(self) -> float:
        """What it costs beyond the shares of its pods; less than nothing for a bargain."""
        return self.price - self.shares

    @property
    def is_well_bought(self) -> bool:
        """Whether there is nothing to be saved on it."""
        return self.excess <= _WELL_BOUGHT


class ClusterShares:
    """The shares of all pods of a cluster, and the excess of every machine."""

    def __init__(
        self, view: DisruptionContext, cache: ShareCache | None = None, effort: float = 1.0
    ) -> None:
        """Determine what is rented, and at what price; shares are computed on first use.

        Args:
            cache: of earlier passes, for where the bound itself is not asked for.
            effort: the part of the effort of one plan that the shares are worth.
        """
        self._view = view
        self._effort = effort
        self._cache = cache
        rented, self.kept_hourly = _rented(view)
        self._prices: Final[Mapping[str, float]] = rented
        self._compiler = Compiler()  # machines without pods would drive the others from a cache
        self._has_failures = False  # whether a pod cannot be placed by any plan

    @cached_property
    def machines(self) -> tuple[MachineExcess, ...]:
        """Every machine at a known price, highest excess first, then by name."""
        found = []
        for machine in self._view.snapshot.nodes:
            price = self._prices.get(machine.name)
            if price is not None:
                pods = tuple(filter(is_reschedulable, machine.pods))
                paid = sum(self.share_of.get(key_of(pod), 0.0) for pod in pods)
                found.append(MachineExcess(machine, price, paid, pods))
        return tuple(sorted(found, key=lambda entry: (-entry.excess, entry.name)))

    @cached_property
    def share_of(self) -> Mapping[str, float]:
        """The share of each pod, by its key."""
        known = self._cached
        if known is not None:
            return known
        shares, class_of = self._proof.shares, self._compiled.class_of
        found = {
            key_of(pod): shares.get(class_of[position], 0.0)
            for position, pod in enumerate(self._compiled.problem.pods)
        }
        if self._cache is not None:
            kinds = {_kind_of(pod): found[key_of(pod)] for pod in self._compiled.problem.pods}
            catalogues = self._view.ground.catalogues
            self._cache.put(KnownShares(self._view.now, catalogues, kinds, self._found_groups))
        return found

    @cached_property
    def _known(self) -> KnownShares | None:
        """What an earlier pass found, if it is still worth something."""
        if self._cache is None:
            return None
        return self._cache.find(self._view.now, self._view.ground.catalogues)

    @cached_property
    def _cached(self) -> dict[str, float] | None:
        """The share of each pod by what an earlier pass found; None if one is of another kind."""
        known = self._known
        if known is None:
            return None
        found = {}
        for machine in self._view.snapshot.nodes:
            for pod in machine.pods if machine.name in self._prices else ():
                if is_reschedulable(pod):
                    share = known.share_of.get(_kind_of(pod))
                    if share is None:
                        return None
                    found[key_of(pod)] = share
        return found

    @property
    def now_hourly(self) -> float:
        """What all machines of known price cost now, less what commitments pay."""
        ledger = self._view.ground.ledger
        paid = ledger.covered if ledger is not None else 0.0
        return sum(self._prices.values()) + self.kept_hourly - paid

    @property
    def lower_bound(self) -> float:
        """What no plan for the same pods can go below; machines that stay as they are included."""
        return min(self._proof.hourly + self.kept_hourly, self.now_hourly)

    def packed_anew(self, has_time: HasTime = always) -> float | None:
        """What all machines would cost if every pod were packed anew; None if some had no place."""
        problem = self._compiled.problem
        if self._has_failures:
            return None
        kept = [machine for machine in problem.nodes if machine.name not in self._prices]
        ledger, paid = problem.ledger, 0.0
        if ledger is not None:  # new machines may use what those that go leave
            ledger = ledger.without(self._prices)
            paid = ledger.covered
        anew = replace(problem, nodes=kept, ledger=ledger)
        plan = solve(anew, has_time, compiler=self._compiler)
        return None if plan.left_out else plan.expected_cost + self.kept_hourly - paid

    @property
    def groups(self) -> Mapping[str, str]:
        """Pools that share pods, directly or by way of others: pool -> the first of its group."""
        known = self._known
        if known is not None and self._cached is not None:
            return known.groups
        return self._found_groups

    @cached_property
    def _found_groups(self) -> Mapping[str, str]:
        groups = _Groups()
        well_known = self._well_known
        own: dict[PodClass, set[str]] = {}
        home = {
            key_of(pod): machine.node_pool
            for machine in self._view.snapshot.nodes
            if machine.name in self._prices
            for pod in machine.pods
        }
        for position, pod in enumerate(self._compiled.problem.pods):
            own.setdefault(self._compiled.class_of[position], set()).add(home[key_of(pod)])
        each_pool = [[template] for template in self._compiled.templates]
        for pod_class, pools in own.items():
            masks = offering_masks(pod_class, each_pool, well_known)
            others = (pool[0].name for pool, mask in zip(each_pool, masks, strict=True) if mask)
            groups.join([*sorted(pools), *others])
        return groups.first_of_each()

    @cached_property
    def _compiled(self) -> CompiledProblem:
        """The rented machines without their pods, which are to be placed."""
        view = self._view
        nodes: list[StateNode] = []
        pods: list[Pod] = []
        for machine in view.snapshot.nodes:
            if machine.name not in self._prices:
                nodes.append(machine)
                continue
            moving = tuple(filter(is_reschedulable, machine.pods))
            pods += moving
            left = tuple(pod for pod in machine.pods if not is_reschedulable(pod))
            nodes.append(replace(machine, pods=left))
        problem, failures = view.ground.problem(pods)
        self._has_failures = bool(failures)
        settings = problem.options.cost
        cost = replace(
            settings,
            packing=PackingMode.CHEAPEST,
            is_forced=True,
            budget=settings.budget * self._effort,
        )
        options = replace(problem.options, cost=cost)
        return CompiledProblem(replace(problem, nodes=nodes, options=options), self._compiler)

    @property
    def _well_known(self) -> frozenset[str]:
        return self._view.facts.well_known_labels | self._compiled.custom_labels

    @cached_property
    def _proof(self) -> Proof:
        compiled = self._compiled
        room = free_room(compiled)
        prices = [self._prices.get(machine.name, 0.0) for machine in compiled.state_nodes]
        served = Counter(compiled.class_of)
        rooms = FreeRoom(room.free, room.usable, prices)
        return proof_of(compiled, served, self._well_known, rooms)


def _kind_of(pod: Pod) -> bytes:
    """A key that is equal for pods with the same demands."""
    return class_key(pod, pod.spec.topology_spread_constraints)


def _rented(view: DisruptionContext) -> tuple[dict[str, float], float]:
    """The prices of machines that a plan may give up, and what the others cost together.

    A static pool keeps its machines whatever its pods need.
    """
    rented: dict[str, float] = {}
    kept = 0.0
    for machine in view.snapshot.nodes:
        pool = view.snapshot.node_pools.get(machine.node_pool)
        if machine.node_claim is None or machine.is_deleting or pool is None:
            continue
        price = price_of(machine, view.inspection.types.get(machine.node_pool, {}))
        if price is None:
            continue
        if pool.spec.replicas is not None or machine.node is None:
            kept += price
        else:
            rented[machine.name] = price
    return rented, kept


class _Groups:
    """Names that belong together because something joins them."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def join(self, names: Sequence[str]) -> None:
        """Put all of these into one group."""
        for name in names:
            one, other = self._root(names[0]), self._root(name)
            self._parent[max(one, other)] = min(one, other)

    def first_of_each(self) -> dict[str, str]:
        """The first name of the group of every name."""
        return {name: self._root(name) for name in self._parent}

    def _root(self, name: str) -> str:
        self._parent.setdefault(name, name)
        while self._parent[name] != name:
            name = self._parent[name]
        return name


def by_group(
    entries: Iterable[MachineExcess], groups: Mapping[str, str]
) -> dict[str, list[MachineExcess]]:
    """Machines by the group of their pool, in their order."""
    found: dict[str, list[MachineExcess]] = {}
    for entry in entries:
        pool = entry.machine.node_pool
        found.setdefault(groups.get(pool, pool), []).append(entry)
    return found

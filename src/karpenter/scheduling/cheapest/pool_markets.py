"""Markets of a problem: each pool with the free pods that would open a claim in it.

Notation
    free class   pods without topology rules, devices, ports or volumes, so that only room, labels
                 and taints matter; only they may be packed in another order than Karpenter's
    home         of a free class: the first of its stages, and within it the first pool in order,
                 that would open a claim for it; price never moves a pod to another pool
    large class  one that no size with enough choice of types holds; it uses what there is
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from karpenter.model import labels
from karpenter.model.requirements import Requirements
from karpenter.model.resources import CPU
from karpenter.scheduling.bound import COMMON
from karpenter.scheduling.cheapest.coverage import Coverage
from karpenter.scheduling.cheapest.market import Draw, Market, Size, without_dominated
from karpenter.scheduling.cheapest.narrowing import expected_price, has_choice
from karpenter.scheduling.compiled.offerings import partition
from karpenter.scheduling.compiled.pod_classes import PodClass, Stage
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.inputs.cost_annotations import pool_cost
from karpenter.scheduling.packing.joining import Joining, Refusal
from karpenter.scheduling.problem import CostOptions, PackingMode

_MOST_PARTS: Final = 256  # sets of offerings that differ in the classes that may use them


@dataclass(slots=True, eq=False)
class FreeClass:
    """Free pods of one home with the same requests and demands, of whichever workloads."""

    pod_class: PodClass  # any one of theirs
    stage: Stage
    allowed: int  # offerings that labels, taints and rare resources leave
    pods: list[int]  # positions, in Karpenter's order

    @property
    def needs(self) -> Mapping[str, int]:
        """What one pod asks for."""
        return dict(self.pod_class.needs)


@dataclass(frozen=True, slots=True)
class PoolMarket:
    """A pool with the free classes whose home it is."""

    template: Template
    cost: CostOptions
    classes: Sequence[FreeClass]
    resources: tuple[str, ...]  # those that any class needs, cpu first

    def needs(self) -> list[tuple[int, ...]]:
        """What one pod of each class needs, by resource."""
        return [
            tuple(wanted.get(name, 0) for name in self.resources)
            for wanted in (entry.needs for entry in self.classes)
        ]

    def with_pods(self) -> "PoolMarket":
        """The same market with those classes alone that still have pods without a place."""
        return PoolMarket(
            self.template, self.cost, [e for e in self.classes if e.pods], self.resources
        )

    def market(
        self,
        *,
        with_choice: bool = True,
        coverage: Coverage | None = None,
        spot_left: float | None = None,
    ) -> Market:
        """The classes with their pods as they are now, and the sizes that can be bought.

        Args:
            with_choice: limit the sizes to those whose room as many types have as a claim keeps,
                but for those that are covered.
            coverage: what commitments still cover, which makes further sizes.
            spot_left: cpu that may still be spot, in millicores; None where there is no such limit.
        """
        template, cost = self.template, self.cost
        universe, room = template.universe, template.room
        sizes: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}
        covered: list[Size] = []
        limits = [*coverage.limits] if coverage else []
        spot = universe.with_value(labels.CAPACITY_TYPE, labels.SPOT)
        on_spot = 0 if spot_left is None else spot  # sizes that draw on what may be spot
        parts = list(partition([entry.allowed for entry in self.classes]))
        for users, bits in parts[:_MOST_PARTS]:
            common = universe.launchable
            for user in users:
                common &= self.classes[user].allowed
            for rest, bit in room.cheapest_ways(bits & on_spot & universe.launchable):
                amounts = [(name, rest[name]) for name in self.resources]
                holding = room.fitting(common & on_spot, {}, amounts)
                if with_choice and not has_choice(universe, holding, cost):
                    continue
                has, price = tuple(n for _, n in amounts), expected_price(template, holding, cost)
                if min(has) >= 0 and price < math.inf:
                    cpu = universe.types[universe.type_of[bit]].capacity.cpu
                    taken = Draw(len(limits), float(max(1, cpu)))
                    own = tuple(sorted(users))
                    covered.append(Size(has, price + cost.node_cost, own, draw=taken))
            for rest, _ in room.cheapest_ways(bits & ~on_spot & universe.launchable):
                amounts = [(name, rest[name]) for name in self.resources]
                holding = room.fitting(common & ~on_spot, {}, amounts)
                if with_choice and not has_choice(universe, holding, cost):
                    continue
                key = tuple(amount for _, amount in amounts), tuple(sorted(users))
                price = expected_price(template, holding, cost) + cost.node_cost
                sizes[key] = min(price, sizes.get(key, price))
            for rest, price, draw in coverage.sizes(universe, room, bits) if coverage else ():
                has = tuple(rest[name] for name in self.resources)
                if min(has) >= 0:
                    covered.append(
                        Size(has, price + cost.node_cost, tuple(sorted(users)), draw=draw)
                    )
        found = [
            Size(has, price, users)
            for (has, users), price in sizes.items()
            if 0 <= price < math.inf
        ]
        return Market(
            self.needs(),
            [len(each.pods) for each in self.classes],
            without_dominated([*found, *covered]),
            [*limits, spot_left] if spot_left is not None else limits if covered else (),
        )


def is_free(pod_class: PodClass) -> bool:
    """Whether pods of a class have no topology rules, devices, ports or volumes."""
    first = pod_class.stages[0]  # later stages have no rules that it has not
    return not (
        first.hosts
        or first.domains
        or pod_class.counted
        or pod_class.repels
        or pod_class.uses_devices
        or pod_class.has_extras
        or pod_class.is_costly
    )


def wants_cheapest(compiled: CompiledProblem) -> bool:
    """Whether any pool is to be packed by price."""
    settings = compiled.problem.options.cost
    return any(
        pool_cost(template.node_pool, settings).packing is PackingMode.CHEAPEST
        for template in compiled.templates
    )


def pool_markets(
    compiled: CompiledProblem, joining: Joining, positions: Iterable[int]
) -> list[PoolMarket]:
    """The markets of these pods; pods that no pool would open a claim for are in none.

    Args:
        joining: holds what is left of limits and reservations, which decides a pod's home.
        positions: of pods to be packed by price, in Karpenter's order.
    """
    settings = compiled.problem.options.cost
    costs = [pool_cost(template.node_pool, settings) for template in compiled.templates]
    homes: dict[int, tuple[Template, Stage, int] | None] = {}  # class -> its home
    grouped: dict[tuple[object, ...], FreeClass] = {}
    template_of: dict[tuple[object, ...], Template] = {}
    for position in positions:
        pod_class = compiled.class_of[position]
        if pod_class.number not in homes:
            home = _home(compiled, joining, pod_class) if is_free(pod_class) else None
            homes[pod_class.number] = home
        home = homes[pod_class.number]
        if home is None or costs[home[0].number].packing is not PackingMode.CHEAPEST:
            continue
        template, stage, allowed = home
        key = (template.number, pod_class.needs, id(stage.requirements), stage.tolerations)
        entry = grouped.get(key)
        if entry is None:
            grouped[key] = FreeClass(pod_class, stage, allowed, [position])
            template_of[key] = template
        else:
            entry.pods.append(position)
    markets: dict[tuple[object, ...], list[FreeClass]] = {}
    for alike, entry in grouped.items():
        template = template_of[alike]
        kind = (template.number, *_open_labels(template, entry.stage.requirements))
        markets.setdefault(kind, []).append(entry)
    found = []
    for kind in sorted(markets, key=lambda kind: tuple(map(str, kind))):
        classes = sorted(markets[kind], key=_by_content)
        number = kind[0]
        assert isinstance(number, int)
        found.append(_pool_market(compiled.templates[number], costs[number], classes))
    return found


def free_stages(
    compiled: CompiledProblem, joining: Joining, positions: Iterable[int]
) -> dict[int, tuple[Template, Stage]]:
    """The home of each of these free pods, if it has one: a pool, and the stage to join it by."""
    homes: dict[int, tuple[Template, Stage, int] | None] = {}
    found = {}
    for position in positions:
        pod_class = compiled.class_of[position]
        if pod_class.number not in homes:
            homes[pod_class.number] = _home(compiled, joining, pod_class)
        home = homes[pod_class.number]
        if home is not None:
            found[position] = home[:2]
    return found


def _pool_market(template: Template, cost: CostOptions, classes: Sequence[FreeClass]) -> PoolMarket:
    names = {name for entry in classes for name, _ in entry.pod_class.needs}
    resources = tuple(sorted(names, key=lambda name: (name != CPU, name)))
    return PoolMarket(template, cost, classes, resources)


def in_turn(market: PoolMarket) -> list[tuple[PoolMarket, bool]]:
    """A market in parts that are bought one after the other; later parts fill room left by earlier.

    Pods that may run on spot come after those that must be on-demand: they may fill on-demand
    claims, but a claim of theirs alone is launched as spot. Large classes come first. Each part
    states whether its sizes have to leave a choice of types.
    """
    by_capacity_type: dict[str, list[FreeClass]] = {}
    for entry in market.classes:
        cheapest = market.template.universe.cheapest(entry.allowed)
        name = cheapest.capacity_type if cheapest is not None else ""
        by_capacity_type.setdefault(name, []).append(entry)
    found = []
    for name in sorted(by_capacity_type, key=lambda name: (name == labels.SPOT, name)):
        part = _pool_market(market.template, market.cost, by_capacity_type[name])
        held = {user for most in part.market().most for user in most}
        for is_large in (True, False):
            classes = [e for user, e in enumerate(part.classes) if (user not in held) is is_large]
            if classes:
                own = _pool_market(market.template, market.cost, classes)
                found.append((own, not is_large))
    return found


def _home(
    compiled: CompiledProblem, joining: Joining, pod_class: PodClass
) -> tuple[Template, Stage, int] | None:
    for stage in pod_class.stages:
        for template in compiled.templates:
            claim = joining.open(template, 0, pod_class, stage)
            if isinstance(claim, Refusal):
                continue
            outcome = joining.to_claim(template, claim, pod_class, stage, (), is_new=True)
            if outcome is Refusal.RESERVED:
                return None
            if isinstance(outcome, Refusal):
                continue
            shape, bits, _ = outcome
            if joining.could_book(template, bits):
                return None  # reservations are handed out in Karpenter's order
            rare = [(name, amount) for name, amount in pod_class.needs if name not in COMMON]
            allowed = template.room.fitting(claim.bits & shape.bits, {}, rare)
            return template, stage, allowed
    return None


def _open_labels(template: Template, wanted: Requirements) -> tuple[str, ...]:
    """A pod's requirements on labels that no offering defines; pods on one node share a value."""
    universe = template.universe
    return tuple(
        str(entry)
        for entry in sorted(wanted, key=lambda entry: entry.key)
        if not universe.values(entry.key, universe.all_bits)
    )


def _by_content(entry: FreeClass) -> tuple[object, ...]:
    """A sort key of classes that does not depend on the order of pods."""
    requests = entry.pod_class.requests
    return (
        -requests.cpu,
        -requests.memory,
        sorted(entry.needs.items()),
        sorted(map(str, entry.stage.requirements)),
        list(map(str, entry.stage.tolerations)),
    )

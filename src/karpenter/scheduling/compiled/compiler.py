"""The cache of compiled pools and machines, kept between solves while their inputs are unchanged.

Pools, catalogues and machines are compared by identity: state hands out the same objects until they
change. Entries that a solve does not use are evicted afterwards.
"""

from collections.abc import Iterable, Sequence
from operator import is_
from typing import Final

from karpenter.api.karpenter import Commitment, NodeOverlay
from karpenter.cloud.types import InstanceType
from karpenter.scheduling.commitments import Book, Terms
from karpenter.scheduling.compiled.class_keys import ClassKeys
from karpenter.scheduling.compiled.existing_nodes import Machines, NodeIndex
from karpenter.scheduling.compiled.offerings import OfferingIndex
from karpenter.scheduling.compiled.share_cache import ShareCache
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.inputs.commitments import commitment_problem
from karpenter.scheduling.inputs.daemons import Daemon
from karpenter.scheduling.inputs.overlays import Overlaid, OverlaidCatalogues, apply_overlays
from karpenter.scheduling.packing.claims import Shapes
from karpenter.scheduling.problem import PoolCatalogue, Problem
from karpenter.state.nodes import StateNode

_MOST_COMMITMENTS: Final = 1000  # whose problems are remembered
_MOST_SHAPES: Final = 20_000  # more than any cluster needs; beyond it the cache is cleared


class Compiler:
    """Compiles templates and machines, each once."""

    def __init__(self) -> None:
        """Begin with nothing compiled."""
        self._universes: dict[
            int, tuple[OfferingIndex, Shapes]
        ] = {}  # by identity of the catalogue
        self._templates: dict[tuple[int, int, int], Template] = {}
        self._daemons: Sequence[Daemon] = ()
        self._machines = Machines()
        self.class_keys: Final = ClassKeys()
        self.shares: Final = ShareCache()
        self._overlays = OverlaidCatalogues((), (), Overlaid((), ()))
        self._problems: dict[int, tuple[Commitment, str]] = {}  # by identity of the object
        self._book: tuple[Sequence[Terms], Sequence[Sequence[InstanceType]], Book] | None = None

    def overlaid(self, overlays: Iterable[NodeOverlay], pools: Sequence[PoolCatalogue]) -> Overlaid:
        """The catalogues of pools with overlays applied."""
        given = tuple(overlays)
        if not self._overlays.holds(given, pools):
            self._overlays = OverlaidCatalogues(given, pools, apply_overlays(given, pools))
        return self._overlays.of(pools)

    def commitment_problem(self, commitment: Commitment) -> str:
        """What is wrong with a commitment by itself, or nothing."""
        known = self._problems.get(id(commitment))
        if known is None:
            if len(self._problems) >= _MOST_COMMITMENTS:
                self._problems.clear()
            known = self._problems[id(commitment)] = (commitment, commitment_problem(commitment))
        return known[1]

    def book(self, terms: Sequence[Terms], catalogues: Sequence[Sequence[InstanceType]]) -> Book:
        """Commitments matched with the types of all pools."""
        known = self._book
        if (
            known is not None
            and known[0] == terms
            and len(known[1]) == len(catalogues)
            and all(map(is_, known[1], catalogues))
        ):
            return known[2]
        distinct = {id(types): types for types in catalogues}.values()
        made = Book(terms, [kind for types in distinct for kind in types])
        self._book = (terms, catalogues, made)
        return made

    def templates(self, problem: Problem) -> list[Template]:
        """The templates of a problem's pools, in the order they are to be tried."""
        if list(problem.daemons) != list(self._daemons):
            self._templates.clear()
            self._daemons = problem.daemons
        by_name = sorted(problem.pools, key=lambda p: p.node_pool.metadata.name, reverse=True)
        ordered = sorted(by_name, key=lambda pool: -(pool.node_pool.spec.weight or 0))
        used: dict[int, tuple[OfferingIndex, Shapes]] = {}
        for pool in ordered:
            if id(pool.instance_types) not in used:
                used[id(pool.instance_types)] = self._universe(problem, pool)
        self._universes = used
        for _, shapes in used.values():
            shapes.forget_incoming()
        compiled = {
            (number, id(pool.node_pool), id(pool.instance_types)): self._template(
                problem, number, pool
            )
            for number, pool in enumerate(ordered)
        }
        self._templates = compiled
        return list(compiled.values())

    def nodes(self, problem: Problem, ordered: Iterable[StateNode]) -> NodeIndex:
        """The machines of a problem, in the order they are to be tried."""
        return self._machines.index(problem, ordered)

    def _universe(self, problem: Problem, pool: PoolCatalogue) -> tuple[OfferingIndex, Shapes]:
        known = self._universes.get(id(pool.instance_types))
        if (
            known is not None
            and known[0].types is pool.instance_types
            and len(known[1]) <= _MOST_SHAPES
        ):
            return known
        universe = OfferingIndex(pool.instance_types)
        return universe, Shapes(universe, problem.facts.well_known_labels)

    def _template(self, problem: Problem, number: int, pool: PoolCatalogue) -> Template:
        known = self._templates.get((number, id(pool.node_pool), id(pool.instance_types)))
        universe, shapes = self._universes[id(pool.instance_types)]
        if known is not None and known.node_pool is pool.node_pool and known.universe is universe:
            return known
        return Template(number, pool.node_pool, universe, shapes, problem.daemons, problem.facts)

"""Static pools and reservations as disruption counts them: strength, slots and replacements."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec
import pytest

from helpers.builders import FACTS_F, NOW, RESERVATION_ID, expression, offering, reserved
from helpers.disruption import DisruptionInputs, catalogue_of, context_of, snapshot
from helpers.disruption_objects import (
    ON_DEMAND_ONLY,
    Standing,
    kind,
    machine,
    on_demand,
    pod_on,
    pool,
    spot,
)
from karpenter.api.karpenter import NodePool
from karpenter.api.selectors import NodeSelectorRequirement
from karpenter.cloud.types import InstanceType, Offering
from karpenter.disruption.candidates import Candidate, Kind
from karpenter.disruption.context import DisruptionContext, DisruptionSettings
from karpenter.disruption.methods.terminate_first import credit_for, holds_slot, is_full
from karpenter.disruption.static_pools import static_replacement, strength_of
from karpenter.model import labels as keys
from karpenter.scheduling.plan import Launch, PlannedClaim
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION
from karpenter.state.static_node_counts import count_static

FIXED: Final = pool(replicas=3, limits={"nodes": "5"})
RESERVED_ONLY: Final = (expression(keys.CAPACITY_TYPE, "In", keys.RESERVED),)


def test_drift_and_repair_count_as_whoever_scales_the_pool() -> None:
    view = context_of(machine("a"), machine("b", marked=True), pools=[FIXED])

    assert count_static(FIXED, view.snapshot, now=NOW) == strength_of(view, FIXED)


def test_what_a_static_replacement_is_made_of() -> None:
    fixed = _with_template(pool(replicas=1, requirements=ON_DEMAND_ONLY), hostname="h1")

    claim = _replacement(fixed)

    assert {"on-demand"} == set(claim.requirements[keys.CAPACITY_TYPE].values)
    assert keys.HOSTNAME not in {entry.key for entry in claim.requirements}
    assert "mine" == claim.annotations["example.com/own"]
    assert NODEPOOL_HASH_VERSION == claim.annotations[keys.NODEPOOL_HASH_VERSION]
    assert "n1" == claim.annotations[keys.REPLACES]


@pytest.mark.parametrize(
    ("stated", "usual", "expected"),
    [
        pytest.param("5m", "1h", "5m", id="its own"),
        pytest.param(None, "1h", "1h", id="the usual one of the provider"),
        pytest.param(None, None, None, id="none"),
    ],
)
def test_the_grace_period_of_a_static_replacement(
    stated: str | None, usual: str | None, expected: str | None
) -> None:
    fixed = _with_template(pool(replicas=1), termination_grace_period=stated)
    facts = replace(FACTS_F, default_termination_grace_period=usual)
    cluster = snapshot(machine("n1", pod_on("p")), pools=[fixed])
    view = DisruptionContext(cluster, catalogue_of({}), facts, DisruptionSettings(), now=NOW)

    claim = static_replacement(view, view.candidates(Kind.GRACEFUL)[0])

    assert expected == claim.termination_grace_period


@pytest.mark.parametrize(
    ("types", "launch"),
    [
        pytest.param(
            [kind("b", 4, ways=[on_demand(2.0)]), kind("a", 4, ways=[on_demand(3.0)])],
            ("b", "z1", "on-demand", 2.0),
            id="the cheapest",
        ),
        pytest.param(
            [kind("b", 4, ways=[on_demand(2.0)]), kind("a", 4, ways=[on_demand(2.0)])],
            ("a", "z1", "on-demand", 2.0),
            id="by the name of its type",
        ),
        pytest.param(
            [kind("a", 4, ways=[on_demand(2.0, "z2"), on_demand(2.0, "z1")])],
            ("a", "z1", "on-demand", 2.0),
            id="by its zone",
        ),
        pytest.param(
            [kind("a", 4, ways=[on_demand(1.0, available=False), on_demand(2.0, "z2")])],
            ("a", "z2", "on-demand", 2.0),
            id="that is not sold out",
        ),
        pytest.param(
            [kind("a", 4, ways=[spot(1.0), on_demand(2.0)])],
            ("a", "z1", "on-demand", 2.0),
            id="that the pool allows",
        ),
        pytest.param([kind("a", 4, ways=[spot(1.0)])], None, id="or nothing"),
    ],
)
def test_what_a_static_replacement_would_be_launched_as(
    types: list[InstanceType], launch: tuple[str, str, str, float] | None
) -> None:
    found = _replacement(pool(replicas=1, requirements=ON_DEMAND_ONLY), types=types)

    assert (None if launch is None else Launch(*launch)) == found.launch


def test_a_static_replacement_is_of_a_type_that_the_pool_allows() -> None:
    wanted = [expression(keys.INSTANCE_TYPE, "In", "s8"), *ON_DEMAND_ONLY]

    found = _replacement(pool(replicas=1, requirements=wanted))

    assert found.launch is not None
    assert "s8" == found.launch.instance_type


@pytest.mark.case("V15-D40")
@pytest.mark.parametrize(
    ("ways", "full"),
    [
        pytest.param([reserved("r-1", 0)], True, id="nothing but a full reservation"),
        pytest.param([reserved("r-1", 0), reserved("r-2", 1)], False, id="another has a slot"),
        pytest.param(
            [reserved("r-1", 0), spot(1.0, available=False)], False, id="spot may come back"
        ),
        pytest.param([], True, id="nothing at all"),
    ],
)
def test_when_a_pool_is_full(ways: list[Offering], full: bool) -> None:
    assert full == is_full(pool(), {"s4": kind("s4", 4, ways=ways)})


@pytest.mark.case("V15-D40")
@pytest.mark.parametrize(
    "requirements",
    [
        pytest.param(RESERVED_ONLY, id="offerings that a pool does not allow"),
        pytest.param([expression(keys.INSTANCE_TYPE, "In", "s4")], id="nor types"),
    ],
)
def test_what_a_pool_does_not_allow_does_not_count(
    requirements: Sequence[NodeSelectorRequirement],
) -> None:
    types = {
        "s4": kind("s4", 4, ways=[reserved("r-1", 0)]),
        "s8": kind("s8", 8, ways=[on_demand(1.0)]),
    }

    assert is_full(pool(requirements=requirements), types)


GONE: Final = offering(
    "z1", keys.RESERVED, 0.1, available=False, reservation_id="r-1", reservation_capacity=0
)
HOLDER: Final = {RESERVATION_ID: "r-1"}


@pytest.mark.case("V15-D37")
@pytest.mark.parametrize(
    ("options", "ways", "credit", "holds"),
    [
        pytest.param(
            {"capacity_type": keys.RESERVED, "labels": HOLDER},
            [reserved("r-1", 0)],
            {"r-1": 1},
            True,
            id="one that runs on it",
        ),
        pytest.param(
            {"capacity_type": keys.RESERVED, "labels": HOLDER},
            [GONE],
            {"r-1": 1},
            False,
            id="one whose reservation is not on offer",
        ),
        pytest.param(
            {"capacity_type": keys.RESERVED, "labels": HOLDER},
            [reserved("r-2", 0)],
            {"r-1": 1},
            False,
            id="one of another reservation",
        ),
        pytest.param(
            {"capacity_type": keys.ON_DEMAND, "labels": HOLDER},
            [reserved("r-1", 0)],
            {},
            False,
            id="one that only says so",
        ),
        pytest.param(
            {"capacity_type": keys.RESERVED},
            [on_demand(1.0), reserved("r-1", 0)],
            {},
            False,
            id="one that does not say which",
        ),
    ],
)
def test_who_holds_a_slot(
    options: Standing, ways: list[Offering], credit: Mapping[str, int], holds: bool
) -> None:
    types = {"s4": kind("s4", 4, ways=ways)}
    candidate = _candidate(pool(), options, types=list(types.values()))

    assert credit == credit_for(candidate, FACTS_F)
    assert holds == holds_slot(candidate, types, FACTS_F)


def test_without_a_label_for_reservations_nobody_holds_one() -> None:
    candidate = _candidate(pool(), {"capacity_type": keys.RESERVED, "labels": {"": "r-1"}})

    assert {} == credit_for(candidate, replace(FACTS_F, reservation_id_label=""))


def _candidate(wanted: NodePool, options: Standing | None = None, **world: object) -> Candidate:
    given: DisruptionInputs = {"pools": [wanted], **world}  # type: ignore[typeddict-item]
    view = context_of(machine("n1", pod_on("p"), **(options or {})), **given)
    (candidate,) = view.candidates(Kind.GRACEFUL)
    return candidate


def _replacement(wanted: NodePool, **world: object) -> PlannedClaim:
    given: DisruptionInputs = {"pools": [wanted], **world}  # type: ignore[typeddict-item]
    view = context_of(machine("n1", pod_on("p")), **given)
    return static_replacement(view, view.candidates(Kind.GRACEFUL)[0])


def _with_template(
    wanted: NodePool, *, hostname: str = "", termination_grace_period: str | None = None
) -> NodePool:
    template = wanted.spec.template
    asked = [expression(keys.HOSTNAME, "In", hostname)] if hostname else []
    spec = msgspec.structs.replace(
        template.spec,
        requirements=(*template.spec.requirements, *asked),
        termination_grace_period=termination_grace_period,
    )
    metadata = msgspec.structs.replace(template.metadata, annotations={"example.com/own": "mine"})
    changed = msgspec.structs.replace(template, spec=spec, metadata=metadata)
    return msgspec.structs.replace(
        wanted, spec=msgspec.structs.replace(wanted.spec, template=changed)
    )

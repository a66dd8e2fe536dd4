"""Group S: expiration, and node repair as it was before it became a method of disruption."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, Unpack

import msgspec
import pytest

from helpers.builders import FACTS_F, NOW, READY, condition, launching_node, node, node_claim
from helpers.disruption import catalogue_of, going, planned, snapshot
from helpers.disruption_objects import Standing, machine, pdb_of, pod_on, pool
from karpenter.api.karpenter import NodeClassReference, NodePool
from karpenter.api.nodes import Node
from karpenter.cloud.provider import REBOOT_NODE, RepairPolicy
from karpenter.disruption.context import DisruptionSettings
from karpenter.disruption.methods.expiration import expires_at, has_expired
from karpenter.disruption.methods.legacy_repair import deadline, diagnosis, too_many_fail
from karpenter.disruption.plan import plan_disruption
from karpenter.model import labels as keys
from karpenter.scheduling.provisioning import PassSettings
from karpenter.state.eviction_cost import POD_DELETION_COST
from karpenter.state.nodes import StateNode

FOREIGN: Final = NodeClassReference(group="other.sh", kind="OtherNodeClass", name="default")
MINUTE: Final = timedelta(minutes=1)
POLICIES: Final = [
    RepairPolicy("BadNode", "False", 30 * MINUTE),
    RepairPolicy("Disk", "True", 60 * MINUTE),
]


@pytest.mark.parametrize(
    ("age", "expire_after", "expired"),
    [
        pytest.param(timedelta(hours=1, seconds=-1), "1h", False, id="DIS-262 a second too early"),
        pytest.param(timedelta(hours=1), "1h", True, id="DIS-262 to the second"),
        pytest.param(timedelta(days=3650), "Never", False, id="DIS-263 never"),
        pytest.param(timedelta(days=3650), "banana", False, id="what is no time never ends"),
        pytest.param(timedelta(days=3650), "-1h", False, id="nor does less than no time"),
        pytest.param(timedelta(0), "0s", True, id="no time at all is over at once"),
        pytest.param(timedelta(0), "1ns", True, id="as is next to none"),
    ],
)
def test_expiry(age: timedelta, expire_after: str, expired: bool) -> None:
    claim = machine("n1", created=NOW - age, expire_after=expire_after).node_claim
    assert claim is not None

    assert expired == has_expired(claim, now=NOW)


@pytest.mark.case("DIS-262")
def test_when_it_will_be() -> None:
    claim = machine("n1", created=NOW, expire_after="1h").node_claim
    assert claim is not None

    assert NOW + timedelta(hours=1) == expires_at(claim)


@pytest.mark.parametrize(
    "born", [None, datetime.max.replace(tzinfo=UTC)], ids=["unborn", "born at the end of time"]
)
def test_what_has_no_end_never_expires(born: datetime | None) -> None:
    claim = machine("n1", expire_after="1h").node_claim
    assert claim is not None
    metadata = msgspec.structs.replace(claim.metadata, creation_timestamp=born)

    assert expires_at(msgspec.structs.replace(claim, metadata=metadata)) is None


@pytest.mark.case("DIS-264")
def test_nothing_stands_in_the_way_of_expiry() -> None:
    nodes = machine("n1", pod_on("p"), expire_after="1h", annotations={keys.DO_NOT_DISRUPT: "true"})

    plan = planned(nodes, pdbs=[pdb_of(0)], pools=[pool(budgets=["0"])])

    assert ["n1"] == going(plan)


def test_those_that_expire_go_by_name() -> None:
    plan = planned(*(machine(name, expire_after="1h") for name in ("c", "a", "b")))

    assert ["a", "b", "c"] == going(plan)


@pytest.mark.case("DIS-265")
def test_what_is_being_deleted_has_not_expired() -> None:
    claim = machine("n1", expire_after="1h", deleted=NOW).node_claim
    assert claim is not None

    assert not has_expired(claim, now=NOW)


@pytest.mark.case("DIS-265")
def test_what_is_being_deleted_does_not_expire_again() -> None:
    plan = planned(machine("n1", expire_after="1h", deleted=NOW))

    assert ([], ["Deleting"]) == (going(plan), [b.why for b in plan.blocked])


def test_a_claim_of_no_pool_expires_too() -> None:
    plan = planned(machine("n1", pool="", expire_after="1h"))

    assert ["n1"] == going(plan)


def test_a_claim_that_never_launched_expires_too() -> None:
    claim = node_claim("young", provider_id="", created=NOW - timedelta(days=31))

    plan = planned(unlaunched=[claim])

    assert ["young"] == going(plan)


def test_what_expires_need_not_be_scaled_down_as_well() -> None:
    nodes = [machine("a", expire_after="1h"), machine("b"), machine("c")]

    plan = planned(*nodes, pools=[pool(replicas=2)])

    assert [("expiration", "a")] == [(c.method, *c.names) for c in plan.commands]


def foreign(found: StateNode) -> StateNode:
    """A machine as another provider's."""
    assert found.node_claim is not None
    spec = msgspec.structs.replace(found.node_claim.spec, node_class_ref=FOREIGN)
    return replace(found, node_claim=msgspec.structs.replace(found.node_claim, spec=spec))


def test_claims_of_other_providers_are_left_alone() -> None:
    template = msgspec.structs.replace(
        pool().spec.template,
        spec=msgspec.structs.replace(pool().spec.template.spec, node_class_ref=FOREIGN),
    )
    other_pool = msgspec.structs.replace(
        pool(), spec=msgspec.structs.replace(pool().spec, template=template)
    )

    plan = planned(foreign(machine("n1", expire_after="1h")), pools=[other_pool])

    assert ([], ["NoInstanceTypes"]) == (going(plan), [b.why for b in plan.blocked])


def bad(name: str = "x", *said: object, pool: str = "np") -> Node:
    return node(name, pool=pool, conditions=list(said))  # type: ignore[arg-type]


def failing(minutes: int, kind: str = "BadNode", status: str = "False") -> object:
    return condition(kind, status, at=NOW - minutes * MINUTE)


@pytest.mark.case("DIS-266")
@pytest.mark.parametrize("minutes", [20, 30])
def test_when_a_broken_node_is_due(minutes: int) -> None:
    found = diagnosis(bad("x", failing(minutes)), POLICIES)

    assert found is not None
    assert NOW + (30 - minutes) * MINUTE == found.due


def test_the_older_way_does_not_ask_when_the_node_was_created() -> None:
    fresh = node("x", conditions=[failing(99)], created=NOW)  # type: ignore[list-item]

    found = diagnosis(fresh, POLICIES)

    assert found is not None
    assert found.due < NOW


@pytest.mark.case("DIS-267")
@pytest.mark.parametrize(
    "said",
    [
        pytest.param(failing(99, status="True"), id="another status"),
        pytest.param(failing(99, kind="Other"), id="another condition"),
    ],
)
def test_conditions_nobody_asked_about(said: object) -> None:
    assert diagnosis(bad("x", said), POLICIES) is None


@pytest.mark.parametrize(
    ("count", "total", "node_pool", "is_blocked"),
    [
        pytest.param(3, 10, "np", True, id="DIS-268 three of ten are too many"),
        pytest.param(1, 3, "np", False, id="DIS-269 one of three is not"),
        pytest.param(3, 10, "", True, id="DIS-270 without a pool the cluster counts"),
    ],
)
def test_the_health_of_the_others(count: int, total: int, node_pool: str, is_blocked: bool) -> None:
    sick = [bad(f"x{n}", failing(1), pool=node_pool) for n in range(count)]
    others = [bad(f"ok{n}", pool=node_pool) for n in range(total - count)]

    assert is_blocked == bool(too_many_fail(sick[0], [*sick, *others], POLICIES))


@pytest.mark.parametrize(
    ("node_pool", "said"),
    [
        pytest.param(
            "np",
            "more than 20% nodes are unhealthy in the nodepool:"
            " 3 of 5 nodes of NodePool np are unhealthy, more than 1",
            id="DIS-268",
        ),
        pytest.param(
            "",
            "more then 20% nodes are unhealthy in the cluster:"
            " 3 of 10 nodes of the cluster are unhealthy, more than 2",
            id="DIS-270",
        ),
    ],
)
def test_how_many_of_whom_are_unhealthy(node_pool: str, said: str) -> None:
    sick = [bad(f"x{n}", failing(1), pool=node_pool) for n in range(3)]
    others = [bad(f"ok{n}", pool=node_pool) for n in range(2)]
    strangers = [bad(f"other{n}", pool="other") for n in range(5)]

    assert said == too_many_fail(sick[0], [*sick, *others, *strangers], POLICIES)


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        pytest.param((NOW + 5 * MINUTE).isoformat(), NOW, id="DIS-271 a later deadline is moved"),
        pytest.param(
            (NOW - 5 * MINUTE).isoformat(), NOW - 5 * MINUTE, id="DIS-272 an earlier stays"
        ),
        pytest.param(
            "2001-01-01T02:00:00+02:00", datetime(2001, 1, 1, tzinfo=UTC), id="DIS-272 elsewhere"
        ),
        pytest.param("2001-01-01T00:00:00", datetime(2001, 1, 1, tzinfo=UTC), id="DIS-272 in UTC"),
        pytest.param("banana", NOW, id="DIS-271 what nobody can read is replaced"),
        pytest.param(None, NOW, id="none is set"),
    ],
)
def test_deadlines(stated: str | None, expected: datetime) -> None:
    assert expected == deadline(stated, now=NOW)


@pytest.mark.case("DIS-273")
@pytest.mark.parametrize(
    ("bad_node", "disk", "first"),
    [
        pytest.param(10, 10, ("BadNode", 20), id="the shorter time"),
        pytest.param(10, 50, ("Disk", 10), id="the longer one when it is over sooner"),
        pytest.param(10, 40, ("BadNode", 20), id="by name when both are over together"),
    ],
)
def test_the_condition_that_is_due_first_counts(
    bad_node: int, disk: int, first: tuple[str, int]
) -> None:
    sick = bad("x", failing(disk, "Disk", "True"), failing(bad_node))

    found = diagnosis(sick, POLICIES[::-1])

    assert found is not None
    assert first == (found.condition.type, (found.due - NOW) / MINUTE)


def test_a_condition_that_nobody_knows_the_age_of_is_never_due() -> None:
    assert diagnosis(bad("x", condition("BadNode", "False")), POLICIES) is None


@pytest.mark.case("V15-D22")
def test_restarts_are_not_known_to_the_old_way() -> None:
    policies = [RepairPolicy("BadNode", "False", 30 * MINUTE, action=REBOOT_NODE)]

    assert diagnosis(bad("x", failing(99)), policies) is None


def test_the_old_way_looks_for_the_reason() -> None:
    policies = [RepairPolicy("BadNode", "False", 30 * MINUTE, reason_regex="Ker.*")]
    said = condition("BadNode", "False", reason="InKernel", at=NOW)

    assert diagnosis(bad("x", said), policies) is not None
    assert diagnosis(bad("x", failing(99)), policies) is None


def repaired_the_old_way(
    *nodes: StateNode, pools: Sequence[NodePool] = (), is_static: bool = True
) -> list[tuple[str, str]]:
    """What a plan forces, as methods and machines."""
    plan = plan_disruption(
        snapshot(*nodes, pools=pools or [pool(after="Never")]),
        catalogue_of({}),
        FACTS_F,
        DisruptionSettings(PassSettings(static=is_static), legacy_repair=True),
        now=NOW,
        legacy_policies=POLICIES,
    )
    return [(command.method, *command.names) for command in plan.commands]  # type: ignore[misc]


def sick(name: str, minutes: int = 30, **options: Unpack[Standing]) -> StateNode:
    options["node_conditions"] = [READY, condition("BadNode", "False", at=NOW - minutes * MINUTE)]
    return machine(name, pod_on(f"p-{name}"), **options)


WELL: Final = [machine(f"well-{n}", pod_on(f"q{n}")) for n in range(8)]


@pytest.mark.parametrize(
    ("nodes", "commands"),
    [
        pytest.param([sick("b"), sick("a")], [("repair", "a"), ("repair", "b")], id="by name"),
        pytest.param([sick("a", 29)], [], id="DIS-266 not a minute too early"),
        pytest.param(
            [sick("a", expire_after="1h")],
            [("expiration", "a")],
            id="DIS-265 what expires goes once",
        ),
        pytest.param([sick("a", deleted=NOW)], [], id="DIS-265 what is being deleted goes once"),
        pytest.param([replace(sick("a"), node_claim=None)], [], id="what has no claim is not ours"),
        pytest.param([foreign(sick("a"))], [], id="nor is what another provider made"),
        pytest.param(
            [launching_node("a"), sick("b")],
            [("repair", "b")],
            id="what has no node shows no sign of trouble",
        ),
    ],
)
def test_repair_the_old_way(nodes: list[StateNode], commands: list[tuple[str, str]]) -> None:
    assert commands == repaired_the_old_way(*nodes, *WELL)


def test_what_is_repaired_need_not_be_scaled_down_as_well() -> None:
    fixed = pool(replicas=8)

    assert [("repair", "z")] == repaired_the_old_way(sick("z"), *WELL, pools=[fixed])


@pytest.mark.parametrize("is_static", [True, False])
def test_static_pools_shrink_only_with_their_gate(is_static: bool) -> None:
    found = repaired_the_old_way(*WELL, pools=[pool(replicas=7)], is_static=is_static)

    assert is_static == bool(found)


@pytest.mark.case("V15-D45")
@pytest.mark.parametrize(("is_ours", "name"), [(False, "n2"), (True, "n1")])
def test_what_we_wrote_ourselves_does_not_say_which_static_node_goes(
    is_ours: bool, name: str
) -> None:
    glad = pod_on("q", annotations={POD_DELETION_COST: "-134217728"})
    nodes = [machine("n1", pod_on("p")), machine("n2", glad)]

    plan = plan_disruption(
        snapshot(*nodes, pools=[pool(replicas=1)]),
        catalogue_of({}),
        FACTS_F,
        DisruptionSettings(PassSettings(static=True, deletion_cost_is_ours=is_ours)),
        now=NOW,
    )

    assert [name] == going(plan)


def test_a_static_pool_that_shrinks_saves_the_price_of_a_node() -> None:
    (command,) = planned(machine("n1"), machine("n2"), pools=[pool(replicas=1)]).commands

    assert "static" == command.method
    assert 0.4 == pytest.approx(command.savings)

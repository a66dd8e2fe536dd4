"""Group S: expiration, and node repair as it was before it became a method of disruption."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import msgspec
import pytest

from builders import NOW, condition, node, node_claim
from disrupting import going, machine, pdb_of, planned, pod_on, pool
from karpenter.api.karpenter import NodeClassReference
from karpenter.api.nodes import Node
from karpenter.cloud.provider import REBOOT_NODE, RepairPolicy
from karpenter.disruption.expiration import expires_at, has_expired
from karpenter.disruption.legacy_repair import deadline, diagnosis, too_many_fail
from karpenter.model import labels as keys

MINUTE: Final = timedelta(minutes=1)
POLICIES: Final = [
    RepairPolicy("BadNode", "False", 30 * MINUTE),
    RepairPolicy("Disk", "True", 60 * MINUTE),
]


@pytest.mark.parametrize(
    ("age", "expire_after", "expired"),
    [
        pytest.param(timedelta(hours=1, seconds=-1), "1h", False, id="262 a second too early"),
        pytest.param(timedelta(hours=1), "1h", True, id="262 to the second"),
        pytest.param(timedelta(days=3650), "Never", False, id="263 never"),
        pytest.param(timedelta(days=3650), "banana", False, id="what is no time never ends"),
    ],
)
def test_expiry(age: timedelta, expire_after: str, expired: bool) -> None:
    claim = machine("n1", created=NOW - age, expire_after=expire_after).node_claim
    assert claim is not None

    assert expired == has_expired(claim, now=NOW)


def test_262_when_it_will_be() -> None:
    claim = machine("n1", created=NOW, expire_after="1h").node_claim
    assert claim is not None

    assert NOW + timedelta(hours=1) == expires_at(claim)


def test_264_nothing_stands_in_the_way_of_expiry() -> None:
    nodes = machine("n1", pod_on("p"), expire_after="1h", annotations={keys.DO_NOT_DISRUPT: "true"})

    plan = planned(nodes, pdbs=[pdb_of(0)], pools=[pool(budgets=["0"])])

    assert ["n1"] == going(plan)


def test_265_what_is_being_deleted_does_not_expire_again() -> None:
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


def test_claims_of_other_providers_are_left_alone() -> None:
    foreign = NodeClassReference(group="other.sh", kind="OtherNodeClass", name="default")
    mine = machine("n1", expire_after="1h")
    assert mine.node_claim is not None
    spec = msgspec.structs.replace(mine.node_claim.spec, node_class_ref=foreign)
    theirs = replace(mine, node_claim=msgspec.structs.replace(mine.node_claim, spec=spec))
    template = msgspec.structs.replace(
        pool().spec.template,
        spec=msgspec.structs.replace(pool().spec.template.spec, node_class_ref=foreign),
    )
    other_pool = msgspec.structs.replace(
        pool(), spec=msgspec.structs.replace(pool().spec, template=template)
    )

    plan = planned(theirs, pools=[other_pool])

    assert ([], ["NoInstanceTypes"]) == (going(plan), [b.why for b in plan.blocked])


def bad(name: str = "x", *said: object, pool: str = "np") -> Node:
    return node(name, pool=pool, conditions=list(said))  # type: ignore[arg-type]


def failing(minutes: int, kind: str = "BadNode", status: str = "False") -> object:
    return condition(kind, status, at=NOW - minutes * MINUTE)


@pytest.mark.parametrize("minutes", [20, 30])
def test_266_when_a_broken_node_is_due(minutes: int) -> None:
    found = diagnosis(bad("x", failing(minutes)), POLICIES)

    assert found is not None
    assert NOW + (30 - minutes) * MINUTE == found.due


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(failing(99, status="True"), id="267 another status"),
        pytest.param(failing(99, kind="Other"), id="267 another condition"),
    ],
)
def test_conditions_nobody_asked_about(said: object) -> None:
    assert diagnosis(bad("x", said), POLICIES) is None


@pytest.mark.parametrize(
    ("count", "total", "node_pool", "is_blocked"),
    [
        pytest.param(3, 10, "np", True, id="268 three of ten are too many"),
        pytest.param(1, 3, "np", False, id="269 one of three is not"),
        pytest.param(3, 10, "", True, id="270 without a pool the cluster counts"),
    ],
)
def test_the_health_of_the_others(count: int, total: int, node_pool: str, is_blocked: bool) -> None:
    sick = [bad(f"x{n}", failing(1), pool=node_pool) for n in range(count)]
    others = [bad(f"ok{n}", pool=node_pool) for n in range(total - count)]

    assert is_blocked == bool(too_many_fail(sick[0], [*sick, *others], POLICIES))


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        pytest.param((NOW + 5 * MINUTE).isoformat(), NOW, id="271 a later deadline is moved"),
        pytest.param((NOW - 5 * MINUTE).isoformat(), NOW - 5 * MINUTE, id="272 an earlier stays"),
        pytest.param("banana", NOW, id="271 what nobody can read is replaced"),
        pytest.param(None, NOW, id="none is set"),
    ],
)
def test_deadlines(stated: str | None, expected: datetime) -> None:
    assert expected == deadline(stated, now=NOW)


def test_273_the_condition_that_is_due_first_counts() -> None:
    found = diagnosis(bad("x", failing(10), failing(10, "Disk", "True")), POLICIES)

    assert found is not None
    assert ("BadNode", NOW + 20 * MINUTE) == (found.condition.type, found.due)


def test_v15_d22_restarts_are_not_known_to_the_old_way() -> None:
    policies = [RepairPolicy("BadNode", "False", 30 * MINUTE, action=REBOOT_NODE)]

    assert diagnosis(bad("x", failing(99)), policies) is None


def test_the_old_way_looks_for_the_reason() -> None:
    policies = [RepairPolicy("BadNode", "False", 30 * MINUTE, reason_regex="Ker.*")]
    said = condition("BadNode", "False", reason="InKernel", at=NOW)

    assert diagnosis(bad("x", said), policies) is not None
    assert diagnosis(bad("x", failing(99)), policies) is None

"""Group Q: when a claim no longer is what its pool would make; and when it may be consolidated."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest

from helpers.builders import NOW, condition, expression, reserved, taint
from helpers.disruption import planned
from helpers.disruption_objects import (
    LONG_AGO,
    Standing,
    kind,
    machine,
    on_demand,
    pod_on,
    pool,
    spot,
)
from karpenter.api.karpenter import Budget, NodeClaim, NodePool
from karpenter.api.selectors import NodeSelectorRequirement
from karpenter.cloud.types import InstanceType
from karpenter.disruption.claim_conditions import Consolidatable, drift_reason, patience
from karpenter.model import labels as keys
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION, node_pool_hash

TYPES: Final = {each.name: each for each in (kind("s2", 2), kind("s4", 4))}
BASE: Final = pool()


def stamped(wanted: NodePool) -> NodePool:
    """A pool with the hash of its template."""
    annotations = {
        keys.NODEPOOL_HASH: node_pool_hash(wanted),
        keys.NODEPOOL_HASH_VERSION: NODEPOOL_HASH_VERSION,
    }
    metadata = msgspec.structs.replace(wanted.metadata, annotations=annotations)
    return msgspec.structs.replace(wanted, metadata=metadata)


def claim_of(made: NodePool = BASE, **options: Any) -> NodeClaim:
    """A claim that was made from a pool."""
    options.setdefault("claim_annotations", stamped(made).metadata.annotations)
    claim = machine("n1", **options).node_claim
    assert claim is not None
    return claim


def with_template(**changes: Any) -> Callable[[NodePool], NodePool]:
    """Change the spec of a pool's template."""

    def change(old: NodePool) -> NodePool:
        template = old.spec.template
        spec = msgspec.structs.replace(template.spec, **changes)
        return _templated(old, msgspec.structs.replace(template, spec=spec))

    return change


def with_metadata(**changes: Any) -> Callable[[NodePool], NodePool]:
    """Change the metadata of a pool's template."""

    def change(old: NodePool) -> NodePool:
        template = old.spec.template
        metadata = msgspec.structs.replace(template.metadata, **changes)
        return _templated(old, msgspec.structs.replace(template, metadata=metadata))

    return change


def with_spec(**changes: Any) -> Callable[[NodePool], NodePool]:
    """Change the spec of a pool."""
    return lambda old: msgspec.structs.replace(
        old, spec=msgspec.structs.replace(old.spec, **changes)
    )


def _templated(old: NodePool, template: Any) -> NodePool:
    return with_spec(template=template)(old)


def reason(claim: NodeClaim, wanted: NodePool, **more: Any) -> str:
    types: dict[str, InstanceType] = more.pop("types", TYPES)
    return drift_reason(claim, wanted, types, now=more.pop("now", NOW), **more)


@pytest.mark.case("DIS-233")
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(with_metadata(labels={"a": "b"}), id="a label"),
        pytest.param(with_metadata(annotations={"a": "b"}), id="an annotation"),
        pytest.param(with_template(taints=(taint("a:NoSchedule"),)), id="a taint"),
        pytest.param(with_template(startup_taints=(taint("a:NoSchedule"),)), id="a start taint"),
        pytest.param(with_template(expire_after="1h"), id="when it expires"),
        pytest.param(with_template(termination_grace_period="1h"), id="its deadline"),
        pytest.param(
            with_template(
                node_class_ref=msgspec.structs.replace(
                    BASE.spec.template.spec.node_class_ref, name="other"
                )
            ),
            id="its class",
        ),
    ],
)
def test_another_template_is_drift(change: Callable[[NodePool], NodePool]) -> None:
    assert "NodePoolDrifted" == reason(claim_of(), stamped(change(BASE)))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(with_template(expire_after="43200m"), id="DIS-234 the same time otherwise"),
        pytest.param(with_spec(limits={"cpu": "1"}), id="DIS-235 limits"),
        pytest.param(with_spec(weight=7), id="DIS-235 weight"),
        pytest.param(
            with_spec(
                disruption=msgspec.structs.replace(
                    BASE.spec.disruption,
                    consolidate_after="1h",
                    consolidation_policy="WhenEmpty",
                    budgets=(Budget(nodes="1"),),
                )
            ),
            id="DIS-235 disruption",
        ),
    ],
)
def test_what_does_not_make_another_node_is_no_drift(
    change: Callable[[NodePool], NodePool],
) -> None:
    assert "" == reason(claim_of(), stamped(change(BASE)))


@pytest.mark.case("DIS-234")
def test_the_order_of_taints_does_not_matter() -> None:
    one, other = taint("a:NoSchedule"), taint("b:NoSchedule")
    before = with_template(taints=(one, other))(BASE)
    after = with_template(taints=(other, one))(BASE)

    assert "" == reason(claim_of(before), stamped(after))


@pytest.mark.parametrize(
    ("wanted", "drifts"),
    [
        pytest.param(expression(keys.CAPACITY_TYPE, "In", "spot"), True, id="DIS-236 other values"),
        pytest.param(
            expression(keys.CAPACITY_TYPE, "In", "spot", "on-demand"),
            False,
            id="DIS-237 more values",
        ),
        pytest.param(expression(keys.CAPACITY_TYPE, "Exists"), False, id="DIS-237 any value"),
        pytest.param(expression("team", "In", "a"), True, id="DIS-238 a label it lacks"),
        pytest.param(
            expression("team", "Exists"), True, id="DIS-238 any value of a label it lacks"
        ),
        pytest.param(expression("team", "NotIn", "a"), False, id="DIS-239 not that value"),
        pytest.param(expression("team", "DoesNotExist"), False, id="DIS-239 no such label"),
        pytest.param(expression("cores", "Gt", "10"), True, id="DIS-240 more than it has"),
        pytest.param(expression("cores", "Lt", "10"), False, id="less than a bound"),
    ],
)
def test_requirements(wanted: NodeSelectorRequirement, drifts: bool) -> None:
    claim = claim_of(labels={"cores": "5"})

    found = reason(claim, stamped(pool(requirements=[wanted])))

    assert ("RequirementsDrifted" if drifts else "") == found


@pytest.mark.case("DIS-241")
@pytest.mark.parametrize("side", ["claim", "pool"])
@pytest.mark.parametrize("missing", [keys.NODEPOOL_HASH, keys.NODEPOOL_HASH_VERSION])
def test_without_both_hashes_there_is_nothing_to_compare(side: str, missing: str) -> None:
    changed = stamped(with_template(expire_after="1h")(BASE))
    made = dict(stamped(BASE).metadata.annotations)
    if side == "claim":
        del made[missing]
    else:
        kept = {k: v for k, v in changed.metadata.annotations.items() if k != missing}
        changed = msgspec.structs.replace(
            changed, metadata=msgspec.structs.replace(changed.metadata, annotations=kept)
        )

    assert "" == reason(claim_of(claim_annotations=made), changed)


@pytest.mark.case("DIS-241")
def test_hashes_of_different_versions_are_not_compared() -> None:
    made = {keys.NODEPOOL_HASH: "1", keys.NODEPOOL_HASH_VERSION: "v0"}

    assert "" == reason(claim_of(claim_annotations=made), stamped(BASE))


@pytest.mark.parametrize(
    ("minutes", "more", "expected"),
    [
        pytest.param(59, {}, "", id="DIS-242 it may not be listed everywhere yet"),
        pytest.param(60, {}, "", id="DIS-242 an hour is not more than an hour"),
        pytest.param(61, {}, "InstanceTypeNotFound", id="DIS-242 its type is gone"),
        pytest.param(61, {"is_type_known": True}, "", id="it was seen a short while ago"),
    ],
)
def test_a_type_that_is_gone(minutes: int, more: dict[str, bool], expected: str) -> None:
    claim = claim_of(instance_type="gone", created=NOW - timedelta(minutes=minutes))

    assert expected == reason(claim, stamped(BASE), **more)


@pytest.mark.case("DIS-242")
def test_what_nobody_knows_the_age_of_may_be_new() -> None:
    claim = claim_of(instance_type="gone")
    metadata = msgspec.structs.replace(claim.metadata, creation_timestamp=None)

    assert "" == reason(msgspec.structs.replace(claim, metadata=metadata), stamped(BASE))


@pytest.mark.parametrize(
    ("options", "ways", "drifts"),
    [
        pytest.param({}, [on_demand(1.0, "z2")], True, id="DIS-243 not in its zone any more"),
        pytest.param({}, [on_demand(1.0, "z1", available=False)], False, id="only sold out"),
        pytest.param({}, [spot(1.0)], True, id="not in its way any more"),
        pytest.param(
            {"capacity_type": "reserved", "labels": {"karpenter.test.sh/reservation-id": "r-1"}},
            [on_demand(1.0)],
            False,
            id="DIS-244 a reservation that ended runs on demand",
        ),
        pytest.param(
            {"capacity_type": "reserved", "labels": {"karpenter.test.sh/reservation-id": "r-1"}},
            [reserved("r-2", 1)],
            False,
            id="DIS-244 another reservation",
        ),
        pytest.param(
            {"capacity_type": "reserved"}, [spot(1.0)], True, id="DIS-244 but not on spot"
        ),
        pytest.param(
            {"capacity_type": "reserved"}, [on_demand(1.0, "z2")], True, id="DIS-244 nor elsewhere"
        ),
        pytest.param(
            {"capacity_type": "reserved", "zone": ""},
            [on_demand(1.0, "z2")],
            False,
            id="DIS-244 unless nobody knows where it is",
        ),
    ],
)
def test_offerings_that_are_gone(options: Standing, ways: list[Any], drifts: bool) -> None:
    claim = claim_of(**options)
    types = {"s4": kind("s4", 4, ways=ways)}

    assert ("InstanceTypeNotFound" if drifts else "") == reason(claim, stamped(BASE), types=types)


@pytest.mark.case("DIS-245")
def test_the_provider_has_the_last_word() -> None:
    assert "ImageDrifted" == reason(claim_of(), stamped(BASE), provider_reason="ImageDrifted")


@pytest.mark.case("DIS-246")
def test_the_pool_has_the_first() -> None:
    changed = stamped(with_template(expire_after="1h")(BASE))

    assert "NodePoolDrifted" == reason(claim_of(), changed, provider_reason="ImageDrifted")


@pytest.mark.case("DIS-247")
def test_what_has_not_launched_has_not_drifted() -> None:
    changed = stamped(with_template(expire_after="1h")(BASE))
    claims = [
        claim_of(claim_conditions=[condition("Launched", "Unknown")]),
        claim_of(without=["Launched"]),
    ]

    assert ["", ""] == [reason(claim, changed) for claim in claims]


@pytest.mark.case("DIS-248")
def test_what_is_changed_back_is_no_drift() -> None:
    changed = with_template(expire_after="1h")(BASE)

    assert "" == reason(claim_of(), stamped(with_template(expire_after="720h")(changed)))


def test_a_pool_nobody_can_read_makes_nothing_drift() -> None:
    bad = pool(requirements=[expression("cores", "Gt", "many")])

    assert "" == reason(claim_of(bad), stamped(bad))


@pytest.mark.parametrize(
    ("after", "options", "is_over"),
    [
        pytest.param("0s", {}, True, id="at once"),
        pytest.param(
            "30s", {"last_pod_event": NOW - timedelta(seconds=29)}, False, id="DIS-162 not yet"
        ),
        pytest.param("30s", {"last_pod_event": NOW - timedelta(seconds=30)}, True, id="just now"),
        pytest.param(
            "30s",
            {"claim_conditions": [condition("Initialized", at=NOW - timedelta(seconds=40))]},
            True,
            id="DIS-163 since it started",
        ),
        pytest.param(
            "30s",
            {"claim_conditions": [condition("Initialized", at=NOW - timedelta(seconds=20))]},
            False,
            id="DIS-163 not since it was asked for",
        ),
        pytest.param(
            "30s",
            {"without": ["Initialized"], "created": NOW - timedelta(seconds=20)},
            False,
            id="since it was asked for, when nobody knows when it started",
        ),
        pytest.param("0s", {"last_pod_event": NOW}, True, id="at once, whatever just happened"),
        pytest.param(
            "0s",
            {"last_pod_event": NOW + timedelta(hours=1)},
            True,
            id="at once, whatever a clock says",
        ),
        pytest.param("Never", {}, None, id="never"),
        pytest.param("soon", {}, None, id="no duration"),
        pytest.param("-30s", {}, None, id="less than no duration"),
    ],
)
def test_patience(after: str, options: Standing, is_over: bool | None) -> None:
    claim = machine("n1", **options).node_claim
    assert claim is not None

    found = patience(claim, pool(after=after), now=NOW)

    assert is_over == (None if found is None else found.is_over)


def test_patience_with_what_has_no_past_at_all_is_over() -> None:
    claim = machine("n1", without=["Initialized"]).node_claim
    assert claim is not None
    metadata = msgspec.structs.replace(claim.metadata, creation_timestamp=None)

    found = patience(msgspec.structs.replace(claim, metadata=metadata), pool(after="30s"), now=NOW)

    assert Consolidatable(is_over=True) == found


@pytest.mark.case("DIS-261")
def test_there_is_no_patience_with_static_pools() -> None:
    claim = machine("n1").node_claim
    assert claim is not None

    assert patience(claim, pool(replicas=1), now=NOW) is None


def test_patience_says_until_when() -> None:
    claim = machine("n1", last_pod_event=NOW).node_claim
    assert claim is not None

    found = patience(claim, pool(after="5m"), now=NOW)

    assert found is not None
    assert NOW + timedelta(minutes=5) == found.until


def test_a_machine_that_has_not_started_is_not_consolidatable() -> None:
    claim = machine("n1").node_claim
    assert claim is not None

    assert patience(claim, pool(), now=NOW, is_initialized=False) is None


def test_a_plan_works_out_drift_where_nobody_has() -> None:
    changed = stamped(with_template(expire_after="1h")(pool(after="Never")))
    nodes = machine(
        "n1",
        pod_on("p"),
        claim_annotations=stamped(pool()).metadata.annotations,
        without=["Launched"],
    )

    plan = planned(nodes, pools=[changed])

    assert ["drift"] == [command.method for command in plan.commands]


def test_what_stands_counts_as_it_stands() -> None:
    changed = stamped(with_template(expire_after="1h")(pool(after="Never")))
    nodes = machine(
        "n1",
        pod_on("p"),
        claim_annotations=stamped(pool()).metadata.annotations,
        claim_conditions=[condition("Drifted", "False", at=LONG_AGO)],
    )

    assert () == planned(nodes, pools=[changed]).commands

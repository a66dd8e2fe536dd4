"""Group K: machines that nobody would miss go at once, whatever the policy."""

from datetime import timedelta
from typing import Final

import pytest

from helpers.builders import NOW, condition, owner, pod_template
from helpers.disruption import context_of, decided, found_by, going, only, planned
from helpers.disruption_objects import Standing, machine, pod_on, pool
from karpenter.api.karpenter import CapacityBuffer, CapacityBufferSpec, PodTemplateReference
from karpenter.api.meta import ObjectMeta
from karpenter.api.pods import Pod, PodTemplate
from karpenter.model import labels as keys
from karpenter.state.eviction_cost import POD_DELETION_COST

DAEMON: Final = [owner("DaemonSet", "logs")]
STATEFUL: Final = [owner("StatefulSet", "db")]


@pytest.mark.parametrize(
    ("on", "is_empty"),
    [
        pytest.param([], True, id="no pods"),
        pytest.param([pod_on("p", owners=DAEMON)], True, id="DIS-157 only daemons"),
        pytest.param([pod_on("p", deleted=NOW)], True, id="DIS-158 only pods on their way out"),
        pytest.param(
            [pod_on("p", deleted=NOW, owners=STATEFUL)],
            False,
            id="DIS-159 the next pod of a StatefulSet needs room",
        ),
        pytest.param(
            [pod_on("p", annotations={POD_DELETION_COST: "-2147483647"})],
            True,
            id="DIS-164 a pod that is glad to go does not count",
        ),
        pytest.param(
            [pod_on("p", priority=-10)], False, id="DIS-165 a low priority is no such wish"
        ),
        pytest.param([pod_on("p")], False, id="a pod"),
    ],
)
def test_what_is_empty(on: list[Pod], is_empty: bool) -> None:
    found = found_by("empty", machine("n1", *on))

    assert (["n1"] if is_empty else []) == going(found)


@pytest.mark.case("DIS-160")
@pytest.mark.parametrize("policy", ["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"])
def test_every_policy_lets_empty_machines_go(policy: str) -> None:
    command = only(decided(machine("n1"), pools=[pool(policy=policy)]))

    assert ("empty", "Empty", "delete") == (command.method, command.reason, command.decision)
    assert 0.4 == pytest.approx(command.savings)
    assert () == command.replacements


@pytest.mark.case("DIS-161")
def test_a_pool_that_never_consolidates_keeps_them_and_says_so() -> None:
    plan = planned(machine("n1"), pools=[pool(after="Never")])

    assert [] == going(plan)
    assert ["Unconsolidatable"] == [b.why for b in plan.blocked]
    assert [("Node/n1", "Unconsolidatable"), ("NodeClaim/n1", "Unconsolidatable")] == [
        (event.target, event.reason) for event in plan.events
    ]


@pytest.mark.parametrize(
    ("options", "goes"),
    [
        pytest.param(
            {"last_pod_event": NOW - timedelta(seconds=20)}, False, id="DIS-162 a pod left 20s ago"
        ),
        pytest.param(
            {"last_pod_event": NOW - timedelta(seconds=30)}, True, id="DIS-162 a pod left 30s ago"
        ),
        pytest.param(
            {
                "claim_conditions": [
                    condition("Initialized", at=NOW - timedelta(seconds=40)),
                ]
            },
            True,
            id="DIS-163 no pod ever came, and it started 40s ago",
        ),
    ],
)
def test_a_machine_is_left_in_peace_for_as_long_as_its_pool_wishes(
    options: Standing, goes: bool
) -> None:
    options["without"] = ["Consolidatable"]
    nodes = machine("n1", **options)

    plan = planned(nodes, pools=[pool(after="30s")])

    assert (["n1"] if goes else []) == going(plan)


@pytest.mark.case("DIS-162")
def test_without_the_condition_a_pass_does_nothing() -> None:
    nodes = machine("n1", without=["Consolidatable"])

    assert [] == going(decided(nodes))


@pytest.mark.case("DIS-166")
def test_an_unknown_type_does_not_matter() -> None:
    assert ["n1"] == going(decided(machine("n1", instance_type="unknown")))


@pytest.mark.case("DIS-167")
def test_a_machine_kept_for_a_buffer_stays() -> None:
    template = PodTemplate(
        metadata=ObjectMeta(name="unit", namespace="default"), template=pod_template(cpu="1")
    )
    buffer = CapacityBuffer(
        metadata=ObjectMeta(name="spare", namespace="default"),
        spec=CapacityBufferSpec(pod_template_ref=PodTemplateReference(name="unit"), replicas=2),
    )

    found = found_by("empty", machine("n1"), machine("n2"), buffers=[buffer], templates=[template])

    assert ["n2"] == going(found)
    kept = found.verdicts["n1"]
    assert ("it is kept as the spare capacity of a CapacityBuffer", True) == (
        kept.detail,
        kept.has_event,
    )


@pytest.mark.case("DIS-167")
def test_a_machine_that_a_waiting_pod_would_come_to_is_not_kept_for_a_buffer() -> None:
    spare = ObjectMeta(name="spare", namespace="default")
    template = PodTemplate(metadata=spare, template=pod_template(cpu="1"))
    buffer = CapacityBuffer(
        metadata=spare,
        spec=CapacityBufferSpec(pod_template_ref=PodTemplateReference(name="spare"), replicas=1),
    )
    waits = pod_on("waits", node_name="", node_selector={keys.ZONE: "z2"})

    view = context_of(
        machine("n1"),
        machine("n2", zone="z2"),
        pods=[waits],
        buffers=[buffer],
        templates=[template],
    )

    assert (frozenset({"n1"}), frozenset({"n2"})) == (view.buffered, view.awaited)


@pytest.mark.case("DIS-168")
def test_a_static_pool_keeps_its_nodes() -> None:
    plan = planned(machine("n1"), pools=[pool(replicas=1)])

    assert [] == going(plan)
    assert ["StaticNodePool"] == [b.why for b in plan.blocked]


def test_those_that_save_most_go_first() -> None:
    nodes = [machine("a", instance_type="s2"), machine("b", instance_type="s8"), machine("c")]

    step = decided(*nodes, pools=[pool(budgets=["2"])])

    assert ["b", "c"] == going(step)

"""How much pods need, which types have it, and how many nodes that makes."""

import msgspec
import pytest

from helpers.builders import (
    container,
    expression,
    fixture_types,
    instance_type,
    ladder,
    managed_node,
    node_pool,
    offering,
    pod,
    pods,
)
from helpers.solver import TYPES_OF_F, solved
from karpenter.api.pods import ActualResources, Container, ContainerStatus, Pod
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.model.resources import Resources
from karpenter.scheduling.plan import Why

AMD64 = {keys.ARCH: "amd64"}
GIB = 2**30


@pytest.mark.case("SCH-65")
def test_a_small_pod_lists_every_type_and_launches_the_cheapest() -> None:
    answer = solved([pod(memory="100M")])

    assert ["small"] == answer.types
    assert TYPES_OF_F == set(answer.only.instance_types)


@pytest.mark.case("SCH-66")
def test_what_the_system_reserves_is_not_for_pods() -> None:
    answer = solved([pod(cpu="2")])

    assert TYPES_OF_F - {"small"} == set(answer.only.instance_types)


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(pod("p", cpu="512"), id="SCH-67 more cpu than any type has"),
        pytest.param(pod("p", memory="2Ti"), id="SCH-67 more memory than any type has"),
        pytest.param(
            pod("p", requests={"acme/gpu-a": "1", "acme/gpu-b": "1"}),
            id="SCH-73 two resources that no type has together",
        ),
    ],
)
def test_a_pod_larger_than_every_type_stays(wanted: Pod) -> None:
    answer = solved([wanted])

    assert {"p": {Why.INSUFFICIENT_RESOURCES}} == answer.unplaced


@pytest.mark.parametrize(
    ("wanted", "nodes"),
    [
        pytest.param(
            pods(40, memory="1.8G", node_selector=AMD64),
            20,
            id="SCH-68 two large pods on each node",
        ),
        pytest.param(
            pods(40, memory="1.8G", node_selector=AMD64)
            + pods(20, "little", memory="400M", node_selector=AMD64),
            20,
            id="SCH-69 little pods fill the gaps",
        ),
    ],
)
def test_large_pods_come_first_and_little_ones_fill_up(wanted: list[Pod], nodes: int) -> None:
    answer = solved(wanted)

    assert ["std"] * nodes == answer.types
    assert {} == answer.unplaced


@pytest.mark.case("SCH-70")
def test_a_node_takes_only_so_many_pods() -> None:
    answer = solved(pods(25, cpu="1m", node_selector=AMD64))

    assert [5] * 5 == answer.loads


@pytest.mark.case("SCH-71")
def test_a_type_for_one_pod_makes_a_node_for_each() -> None:
    solo = expression(keys.INSTANCE_TYPE, "In", "solo")

    answer = solved(pods(3), pools=[node_pool(requirements=[solo])])

    assert ["solo"] * 3 == answer.types


@pytest.mark.case("SCH-72")
def test_each_claim_lists_the_types_its_pods_fit() -> None:
    answer = solved([pod("large", cpu="4.5"), pod("little", cpu="1")], types=ladder(5))

    assert {"it-4"} == set(answer.with_pod("large").instance_types)
    assert {"it-1", "it-2", "it-3", "it-4"} == set(answer.with_pod("little").instance_types)


@pytest.mark.case("SCH-73")
def test_different_accelerators_are_on_different_nodes() -> None:
    wanted = [pod(name, requests={f"acme/{name}": "1"}) for name in ("gpu-a", "gpu-b")]

    answer = solved(wanted)

    assert ["gpu-a", "gpu-b"] == answer.types


@pytest.mark.case("SCH-74")
def test_none_of_an_unknown_resource_is_had_anywhere() -> None:
    answer = solved([pod("p", requests={"foo/x": "0"})])

    assert ["p"] == answer.placed


def init(cpu: str) -> Container:
    return container(cpu, name=f"init-{cpu}")


def sidecar(cpu: str) -> Container:
    return container(cpu, name="sidecar", sidecar=True)


@pytest.mark.parametrize(
    ("steps", "app", "needed"),
    [
        pytest.param([init("2")], "1", 2000, id="SCH-75 the init phase may need more"),
        pytest.param(
            [init("10"), sidecar("4.9")], "6", 10900, id="SCH-76 a sidecar runs beside the app"
        ),
        pytest.param(
            [sidecar("4.9"), init("5")], "6", 10900, id="SCH-77 running needs more than starting"
        ),
        pytest.param(
            [sidecar("4.9"), init("6")], "5", 10900, id="SCH-78 a sidecar runs beside later steps"
        ),
    ],
)
def test_init_containers_and_sidecars(steps: list[Container], app: str, needed: int) -> None:
    answer = solved([pod(init_containers=steps, containers=[container(app)])])

    assert needed == answer.only.requests.cpu


@pytest.mark.case("SCH-75")
def test_the_init_phase_chooses_the_type() -> None:
    answer = solved([pod(init_containers=[init("2")], containers=[container("1")])])

    assert TYPES_OF_F - {"small"} == set(answer.only.instance_types)
    assert ["std"] == answer.types


@pytest.mark.case("SCH-79")
def test_requests_of_the_whole_pod_replace_those_of_its_containers() -> None:
    answer = solved([pod(cpu="1", memory="1Gi", pod_level={"cpu": "9.9", "memory": "3.9Gi"})])

    assert Resources(9900, int(3.9 * GIB) + 1, 1) == answer.only.requests


@pytest.mark.case("SCH-80")
def test_the_overhead_of_the_runtime_comes_on_top() -> None:
    answer = solved([pod(cpu="1", overhead={"cpu": "2"})])

    assert 3000 == answer.only.requests.cpu
    assert "small" not in answer.only.instance_types


def resized(name: str, spec: str, allocated: str, resize: str = "") -> Pod:
    """A pod on node ``n`` whose container is on its way from one size to another."""
    bound = pod(
        name,
        cpu=spec,
        node_name="n",
        statuses=[
            ContainerStatus(
                name="app",
                allocated_resources={"cpu": allocated},
                resources=ActualResources(requests={"cpu": allocated}),
            )
        ],
    )
    return msgspec.structs.replace(
        bound, status=msgspec.structs.replace(bound.status, resize=resize)
    )


@pytest.mark.parametrize(
    ("moving", "needed"),
    [
        pytest.param(
            resized("p", "2", "6"), 6000, id="SCH-81 shrinking, it still has the old size"
        ),
        pytest.param(resized("p", "8", "2"), 8000, id="SCH-81 growing, it will have the new size"),
        pytest.param(
            resized("p", "8", "2", "Infeasible"), 2000, id="a size it cannot get does not count"
        ),
    ],
)
def test_a_pod_that_is_resized_needs_the_larger_size(moving: Pod, needed: int) -> None:
    leaving = managed_node("n", pods=[moving], marked=True)

    answer = solved([moving], nodes=[leaving])

    assert needed == answer.only.requests.cpu


@pytest.mark.case("SCH-81")
def test_the_larger_size_counts_on_the_node_it_runs_on() -> None:
    crowded = managed_node("n", cpu="16", pods=[resized("p", "2", "6")])

    answer = solved([pod("fits", cpu="10"), pod("too-large", cpu="14")], nodes=[crowded])

    assert {"n": ["fits"]} == answer.existing


def test_pods_of_one_spec_that_are_resized_differently_differ_in_size() -> None:
    moving = [resized("a", "8", "2"), resized("b", "8", "2", "Infeasible"), resized("c", "8", "9")]

    answer = solved(moving, nodes=[managed_node("n", pods=moving, marked=True)])

    assert 2 == len(answer.claims)
    assert 19000 == sum(claim.requests.cpu for claim in answer.claims)


def with_huge_pages(memory: str) -> InstanceType:
    return instance_type(
        "huge",
        memory=memory,
        resources={"hugepages-1Gi": "5Gi", "hugepages-2Mi": "10Gi"},
        reserved_system=Resources.from_wire({"memory": "1Gi"}),
    )


@pytest.mark.case("SCH-82")
@pytest.mark.parametrize(
    ("memory", "wanted", "placed"),
    [
        pytest.param("20Gi", "4Gi", ["p"], id="huge pages come out of memory"),
        pytest.param("20Gi", str(4 * GIB + 1), [], id="and not a byte more is left"),
        pytest.param("10Gi", "0", ["p"], id="memory does not become negative"),
        pytest.param("10Gi", "1", [], id="when nothing is left there is nothing"),
    ],
)
def test_memory_beside_huge_pages(memory: str, wanted: str, placed: list[str]) -> None:
    answer = solved([pod("p", memory=wanted)], types=[with_huge_pages(memory)])

    assert placed == answer.placed


@pytest.mark.case("SCH-83")
@pytest.mark.parametrize(
    ("available", "types"),
    [
        pytest.param(True, ["rich"], id="only one way to have a type has the resource"),
        pytest.param(False, [], id="and that way is sold out"),
    ],
)
def test_a_resource_that_only_some_offerings_add(available: bool, types: list[str]) -> None:
    rich = instance_type(
        "rich",
        offerings=[
            offering("z1", price=0.5),
            offering("z2", price=0.9, available=available, capacity={"acme/x": "1"}),
        ],
    )

    answer = solved([pod("p", requests={"acme/x": "1"})], types=[*fixture_types(), rich])

    assert types == answer.types
    assert ["z2"] * len(types) == answer.zones

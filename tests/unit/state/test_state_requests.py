"""A pod asks of its node what its phases need at most, whatever its containers are called."""

import pytest

from helpers.builders import PodOptions, condition, container, instance_type, pod, pod_spec
from karpenter.api.pods import ActualResources, ContainerStatus
from karpenter.model.resources import Resources
from karpenter.state.requests import pod_requests, template_requests, with_limits_as_requests


def status(
    cpu: str | None = None, allocated: str | None = None, *, name: str = "app"
) -> ContainerStatus:
    return ContainerStatus(
        name=name,
        resources=ActualResources(requests={"cpu": cpu}) if cpu else None,
        allocated_resources={"cpu": allocated} if allocated else {},
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, {}, id="a pod that asks for nothing still takes a slot"),
        pytest.param(
            {"containers": [container("1", name="a"), container("500m", "1Gi", name="b")]},
            {"cpu": "1500m", "memory": "1Gi"},
            id="containers add up",
        ),
        pytest.param(
            {"cpu": "1", "init_containers": [container("2", name="init")]},
            {"cpu": "2"},
            id="SCH-75 an init container that needs more than the application decides",
        ),
        pytest.param(
            {
                "cpu": "6",
                "init_containers": [container("10", name="i"), container("4.9", sidecar=True)],
            },
            {"cpu": "10.9"},
            id="SCH-76 a sidecar after a large init container runs beside the application",
        ),
        pytest.param(
            {
                "cpu": "6",
                "init_containers": [container("4.9", sidecar=True), container("5", name="i")],
            },
            {"cpu": "10.9"},
            id="SCH-77 a sidecar runs beside the init container after it",
        ),
        pytest.param(
            {
                "cpu": "5",
                "init_containers": [container("4.9", sidecar=True), container("6", name="i")],
            },
            {"cpu": "10.9"},
            id="SCH-78 an init container beside a sidecar may need more than the application",
        ),
        pytest.param(
            {
                "cpu": "1",
                "init_containers": [
                    container("3", "1Gi", name="i"),
                    container("1", "2Gi", name="j"),
                ],
            },
            {"cpu": "3", "memory": "2Gi"},
            id="the peak is taken resource by resource",
        ),
        pytest.param(
            {
                "cpu": "1",
                "memory": "1Gi",
                "pod_level": {"cpu": "9.9", "memory": "3.9Gi"},
            },
            {"cpu": "9.9", "memory": "3.9Gi"},
            id="SCH-79 requests of the pod as a whole replace those of its containers",
        ),
        pytest.param(
            {
                "requests": {"acme/gpu-a": "1", "hugepages-2Mi": "2Mi"},
                "pod_level": {"hugepages-2Mi": "4Mi", "acme/gpu-a": "7"},
            },
            {"acme/gpu-a": "1", "hugepages-2Mi": "4Mi"},
            id="only cpu, memory and huge pages can be asked for as a whole",
        ),
        pytest.param(
            {"cpu": "1", "overhead": {"cpu": "2"}},
            {"cpu": "3"},
            id="SCH-80 the overhead of the runtime comes on top",
        ),
        pytest.param(
            {"cpu": "2", "statuses": [status(allocated="6")]},
            {"cpu": "6"},
            id="SCH-81 what is still allocated counts while a pod shrinks",
        ),
        pytest.param(
            {"cpu": "8", "statuses": [status(allocated="2")]},
            {"cpu": "8"},
            id="SCH-81 what is asked for counts while a pod grows",
        ),
        pytest.param(
            {"cpu": "1", "statuses": [status(cpu="5", allocated="2")]},
            {"cpu": "5"},
            id="what the container really has counts",
        ),
        pytest.param(
            {
                "cpu": "8",
                "statuses": [status(cpu="2", allocated="2")],
                "conditions": [condition("PodResizePending", "True", "Infeasible")],
            },
            {"cpu": "2"},
            id="a growth that will never happen does not count",
        ),
        pytest.param(
            {
                "cpu": "8",
                "statuses": [status(cpu="2")],
                "conditions": [condition("PodResizePending", "True", "Deferred")],
            },
            {"cpu": "8"},
            id="a growth that is put off does",
        ),
        pytest.param(
            {
                "cpu": "8",
                "statuses": [status(cpu="2")],
                "conditions": [condition("example.com/wish", "True", "Infeasible")],
            },
            {"cpu": "8"},
            id="something else that will never happen says nothing of it",
        ),
        pytest.param(
            {
                "containers": [container("8", name=name) for name in ("a", "b", "c")],
                "statuses": [status(cpu="2", name="a"), status(name="b")],
                "conditions": [condition("PodResizePending", "True", "Infeasible")],
            },
            {"cpu": "18"},
            id="a container of which nothing is known has what it asks for",
        ),
        pytest.param(
            {"cpu": "1", "statuses": [status(cpu="5")]},
            {"cpu": "5"},
            id="also when nobody says what is allocated",
        ),
        pytest.param(
            {"cpu": "1", "memory": "-1Gi"}, {"cpu": "1"}, id="no container gives memory back"
        ),
        pytest.param(
            {"cpu": "1", "overhead": {"cpu": "-5", "memory": "-1Gi"}},
            {"cpu": "1"},
            id="no runtime gives anything back",
        ),
        pytest.param(
            {"cpu": "1", "memory": "1Gi", "pod_level": {"cpu": "-5"}},
            {"memory": "1Gi"},
            id="nor does a pod as a whole",
        ),
    ],
)
def test_pod_requests(options: PodOptions, expected: dict[str, str]) -> None:
    requests = pod_requests(pod(**options))

    assert Resources.from_wire({"pods": 1, **expected}) == requests


def test_a_template_asks_for_what_its_pods_will() -> None:
    spec = pod_spec(cpu="1", limits={"cpu": "4", "memory": "1Gi"})

    assert Resources.from_wire({"pods": 1, "cpu": "1"}) == template_requests(spec)


def test_limits_stand_in_for_requests_that_are_missing() -> None:
    spec = pod_spec(cpu="1", limits={"cpu": "4", "memory": "1Gi"})

    expected = Resources.from_wire({"pods": 1, "cpu": "1", "memory": "1Gi"})
    assert expected == with_limits_as_requests(spec)


@pytest.mark.case("SCH-82")
@pytest.mark.parametrize(
    ("memory", "left"),
    [
        pytest.param("20Gi", "4Gi", id="huge pages come out of memory"),
        pytest.param("12Gi", "0", id="down to nothing"),
    ],
)
def test_huge_pages_are_not_for_ordinary_pods(memory: str, left: str) -> None:
    machine = instance_type(
        "huge",
        memory=memory,
        resources={"hugepages-2Mi": "5Gi", "hugepages-1Gi": "10Gi"},
        reserved_system=Resources.from_wire({"memory": "1Gi"}),
    )

    assert Resources.from_wire({"memory": left}).memory == machine.allocatable.memory

"""Host ports: who shares a node with whom."""

import msgspec
import pytest

from helpers.builders import pod
from helpers.solver import solved
from karpenter.api.pods import ContainerPort, Pod


def port(number: int, *, protocol: str = "TCP", address: str = "") -> ContainerPort:
    return ContainerPort(
        container_port=number, host_port=number, protocol=protocol, host_ip=address
    )


@pytest.mark.case("SCH-197")
def test_two_pods_of_one_host_port_need_two_nodes() -> None:
    answer = solved([pod(name, cpu="0.1", host_ports=[8080]) for name in ("a", "b")])

    assert ["a", "b"] == sorted(answer.placed)
    assert 2 == len(answer.claims)


@pytest.mark.case("SCH-198")
@pytest.mark.parametrize(
    ("one", "other", "nodes"),
    [
        pytest.param(
            port(8080), port(8080, protocol="UDP"), 1, id="protocols do not meet each other"
        ),
        pytest.param(
            port(8080, address="10.0.0.1"),
            port(8080, address="10.0.0.2"),
            1,
            id="nor do different addresses",
        ),
        pytest.param(
            port(8080, address="10.0.0.1"),
            port(8080, address="0.0.0.0"),
            2,
            id="every address is this one too",
        ),
        pytest.param(
            port(8080, address="10.0.0.1"),
            port(8080),
            2,
            id="no address means every one",
        ),
        pytest.param(
            port(8080, address="10.0.0.1"),
            port(8080, address="10.0.0.1"),
            2,
            id="the same address is the same",
        ),
    ],
)
def test_when_host_ports_are_the_same(one: ContainerPort, other: ContainerPort, nodes: int) -> None:
    both = [pod("a", cpu="0.1", host_ports=[one]), pod("b", cpu="0.1", host_ports=[other])]

    answer = solved(both)

    assert ["a", "b"] == sorted(answer.placed)
    assert nodes == len(answer.claims)


def on_host_network(name: str, *numbers: int) -> Pod:
    ports = [ContainerPort(container_port=number) for number in numbers]
    made = pod(name, cpu="0.1", host_ports=ports)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, host_network=True))


@pytest.mark.case("SCH-197")
@pytest.mark.parametrize(
    ("other", "nodes"),
    [
        pytest.param(on_host_network("b", 8080), 2, id="both are on the network of the host"),
        pytest.param(on_host_network("b", 8081), 1, id="each has a port of its own"),
        pytest.param(pod("b", cpu="0.1", host_ports=[8080]), 2, id="the port is mapped"),
        pytest.param(
            pod("b", cpu="0.1", host_ports=[ContainerPort(container_port=8080)]),
            1,
            id="the port is the pod's alone",
        ),
    ],
)
def test_ports_of_a_pod_on_the_network_of_its_host_are_host_ports(other: Pod, nodes: int) -> None:
    answer = solved([on_host_network("a", 8080), other])

    assert nodes == len(answer.claims)

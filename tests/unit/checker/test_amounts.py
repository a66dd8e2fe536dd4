"""The judge reads quantities and adds up pods by itself, and gets what the specification says."""

from fractions import Fraction

import pytest

from helpers.builders import container, instance_type, offering, pod
from karpenter.api.pods import ContainerStatus, Pod
from karpenter.checker.amounts import pod_amounts, quantity, room_of


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        ("2", Fraction(2)),
        ("500m", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("1k", Fraction(1000)),
        ("1E", Fraction(10**18)),
        ("1e3", Fraction(1000)),
        ("-1E-3", Fraction(-1, 1000)),
        ("3n", Fraction(3, 10**9)),
        (7, Fraction(7)),
        (0.25, Fraction(1, 4)),
    ],
)
def test_quantities_are_read_exactly(written: object, amount: Fraction) -> None:
    assert amount == quantity(written)


@pytest.mark.parametrize(
    ("given", "cpu"),
    [
        pytest.param(pod(cpu="0.5m"), 1, id="less than a thousandth counts as one"),
        pytest.param(
            pod(init_containers=[container("2")], containers=[container("1")]),
            2000,
            id="the init phase needs more",
        ),
        pytest.param(
            pod(
                init_containers=[
                    container("10", name="a"),
                    container("4.9", name="b", sidecar=True),
                ],
                containers=[container("6")],
            ),
            10900,
            id="the sidecar runs beside the application",
        ),
        pytest.param(
            pod(
                init_containers=[
                    container("4.9", name="a", sidecar=True),
                    container("6", name="b"),
                ],
                containers=[container("5")],
            ),
            10900,
            id="the sidecar runs beside what is initialized after it",
        ),
        pytest.param(pod(cpu="1", pod_level={"cpu": "9900m"}), 9900, id="the whole pod asks"),
        pytest.param(pod(cpu="1", overhead={"cpu": "2"}), 3000, id="the runtime takes some"),
        pytest.param(pod(cpu="1", overhead={"cpu": "-2"}), 1000, id="the runtime gives nothing"),
        pytest.param(
            pod(
                cpu="2",
                statuses=[ContainerStatus(name="app", allocated_resources={"cpu": "6"})],
            ),
            6000,
            id="it is being made smaller",
        ),
    ],
)
def test_a_pod_asks_for(given: Pod, cpu: int) -> None:
    asked = pod_amounts(given)

    assert (cpu, 1) == (asked["cpu"], asked["pods"])


def test_huge_pages_come_out_of_memory() -> None:
    huge = {"hugepages-2Mi": "5Gi", "hugepages-1Gi": "10Gi"}
    machine = instance_type("huge", memory="20Gi", resources=huge)

    room = room_of(machine, offering(overhead={"memory": "1Gi"}))

    assert 4 * 2**30 == room["memory"]


def test_an_offering_replaces_amounts_of_its_type() -> None:
    room = room_of(instance_type("t", cpu="4"), offering(capacity={"cpu": "2", "acme/gpu": "1"}))

    assert (1900, 1) == (room["cpu"], room["acme/gpu"])

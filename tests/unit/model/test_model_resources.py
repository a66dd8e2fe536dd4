"""Resource vectors: read from the wire, added, compared, and written back."""

import pytest

from karpenter.model.quantity import QuantityError
from karpenter.model.resources import NO_RESOURCES, Resources, format_amount, total

GPU = "nvidia.com/gpu"


def vector(**amounts: int) -> Resources:
    """Build a vector from base units; ``gpu`` stands for an extended resource."""
    names = {"gpu": GPU, "ephemeral": "ephemeral-storage"}
    return Resources.of({names.get(name, name): amount for name, amount in amounts.items()})


@pytest.mark.parametrize(
    ("wire", "amounts"),
    [
        pytest.param({"cpu": "2"}, {"cpu": 2000}, id="cpu is in millicores"),
        pytest.param({"cpu": "1.5"}, {"cpu": 1500}, id="cpu may have a fraction"),
        pytest.param({"cpu": "0.1m"}, {"cpu": 1}, id="cpu is rounded up to a millicore"),
        pytest.param({"cpu": 2}, {"cpu": 2000}, id="cpu as a JSON number"),
        pytest.param({"memory": "1Gi"}, {"memory": 2**30}, id="memory is in bytes"),
        pytest.param({"memory": "100m"}, {"memory": 1}, id="memory is rounded up to a byte"),
        pytest.param({"memory": "100M"}, {"memory": 10**8}, id="memory in decimal units"),
        pytest.param({"pods": "110"}, {"pods": 110}, id="pods are counted"),
        pytest.param(
            {"ephemeral-storage": "20Gi"}, {"ephemeral-storage": 20 * 2**30}, id="storage is bytes"
        ),
        pytest.param({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": 4 * 2**20}, id="huge pages"),
        pytest.param({GPU: "8"}, {GPU: 8}, id="extended resources are counted"),
        pytest.param({GPU: "0", "cpu": "0"}, {}, id="zero is as good as absent"),
        pytest.param({}, {}, id="nothing"),
    ],
)
def test_amounts_are_read_in_base_units(wire: dict[str, object], amounts: dict[str, int]) -> None:
    assert amounts == dict(Resources.from_wire(wire).items())


def test_a_bad_quantity_is_reported_with_its_resource() -> None:
    with pytest.raises(QuantityError, match="memory: '1gi' has the unknown suffix"):
        Resources.from_wire({"cpu": "1", "memory": "1gi"})


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        pytest.param("cpu", 2000, "2", id="whole cpus"),
        pytest.param("cpu", 1930, "1930m", id="millicores"),
        pytest.param("memory", 2**30, "1Gi", id="binary memory"),
        pytest.param("memory", 1536 * 2**20, "1536Mi", id="memory that is no whole gibi"),
        pytest.param("memory", 10**10, "10G", id="decimal memory keeps few digits"),
        pytest.param("memory", 10**8, "100M", id="memory that is not binary at all"),
        pytest.param("memory", 1000 * 1024, "1000Ki", id="as many digits either way: binary"),
        pytest.param("memory", 1000, "1k", id="less than a kibi"),
        pytest.param("memory", -(2**30), "-1Gi", id="overdrawn memory"),
        pytest.param("hugepages-2Mi", 2**22, "4Mi", id="huge pages are bytes"),
        pytest.param("ephemeral-storage", 20 * 2**30, "20Gi", id="storage is bytes"),
        pytest.param("pods", 1024, "1024", id="pods are never binary"),
        pytest.param(GPU, 8, "8", id="extended resources are never binary"),
    ],
)
def test_amounts_are_written_as_canonical_quantities(name: str, amount: int, text: str) -> None:
    assert text == format_amount(name, amount)


def test_a_vector_is_written_with_the_common_resources_first_and_the_others_by_name() -> None:
    resources = Resources.of({"z/b": 1, "a/b": 2, "pods": 3, "memory": 2**20, "cpu": 500})

    assert list(resources.to_wire().items()) == [
        ("cpu", "500m"),
        ("memory", "1Mi"),
        ("pods", "3"),
        ("a/b", "2"),
        ("z/b", "1"),
    ]
    assert "Resources({'cpu': '500m', 'memory': '1Mi'" in repr(resources)


@pytest.mark.parametrize(
    ("name", "amount"),
    [("cpu", 1), ("memory", 2), ("pods", 3), ("ephemeral-storage", 4), (GPU, 5), ("foo/x", 0)],
)
def test_every_resource_can_be_asked_for_by_name(name: str, amount: int) -> None:
    resources = vector(cpu=1, memory=2, pods=3, ephemeral=4, gpu=5)

    assert amount == resources[name]


@pytest.mark.parametrize(
    ("request_", "available", "fits"),
    [
        pytest.param(vector(cpu=100), vector(cpu=100), True, id="exactly enough"),
        pytest.param(vector(cpu=101), vector(cpu=100), False, id="one millicore short"),
        pytest.param(vector(memory=2), vector(memory=1), False, id="memory short"),
        pytest.param(vector(pods=2), vector(pods=1), False, id="no pod slot left"),
        pytest.param(vector(ephemeral=2), vector(ephemeral=1), False, id="storage short"),
        pytest.param(vector(gpu=1), vector(gpu=1), True, id="an extended resource"),
        pytest.param(vector(gpu=2), vector(gpu=1), False, id="an extended resource short"),
        pytest.param(vector(gpu=1), vector(cpu=1), False, id="missing means zero"),
        pytest.param(vector(cpu=1), vector(memory=1), False, id="missing cpu means zero"),
        pytest.param(vector(gpu=0), vector(), True, id="zero of an unknown resource always fits"),
        pytest.param(vector(), vector(), True, id="nothing fits into nothing"),
        pytest.param(vector(), vector(cpu=-1), False, id="an overdrawn cpu meets no request"),
        pytest.param(vector(), vector(memory=-1), False, id="an overdrawn memory meets no request"),
        pytest.param(vector(), vector(pods=-1), False, id="overdrawn pods meet no request"),
        pytest.param(vector(), vector(ephemeral=-1), False, id="overdrawn storage meets nothing"),
        pytest.param(vector(cpu=-2), vector(cpu=-1), False, id="even a credit does not help"),
        pytest.param(vector(cpu=-2), vector(), True, id="a credit fits into nothing"),
        pytest.param(
            vector(cpu=1),
            vector(cpu=9, gpu=-1),
            False,
            id="even a resource not asked for must not be overdrawn",
        ),
    ],
)
def test_fits(request_: Resources, available: Resources, fits: bool) -> None:
    assert fits is request_.fits(available)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        pytest.param(
            vector(cpu=1, gpu=1) + vector(cpu=2, memory=3, gpu=2),
            vector(cpu=3, memory=3, gpu=3),
            id="addition",
        ),
        pytest.param(
            vector(cpu=1, gpu=1) - vector(cpu=2, memory=3),
            vector(cpu=-1, memory=-3, gpu=1),
            id="subtraction may overdraw",
        ),
        pytest.param(vector(gpu=2) - vector(gpu=2), NO_RESOURCES, id="what is left is forgotten"),
        pytest.param(vector(cpu=2, gpu=3) * 3, vector(cpu=6, gpu=9), id="scaling"),
        pytest.param(vector(cpu=2, gpu=3) * 0, NO_RESOURCES, id="scaling to nothing"),
        pytest.param(
            vector(cpu=1, memory=5, gpu=-1).highest(vector(cpu=2, pods=1)),
            vector(cpu=2, memory=5, pods=1),
            id="the larger of each",
        ),
        pytest.param(
            vector(cpu=1, memory=5, gpu=-1).lowest(vector(cpu=2, pods=1)),
            vector(cpu=1, gpu=-1),
            id="the smaller of each",
        ),
        pytest.param(
            total([vector(cpu=1), vector(cpu=2, pods=1), vector(gpu=1)]),
            vector(cpu=3, pods=1, gpu=1),
            id="the sum of many",
        ),
        pytest.param(total([]), NO_RESOURCES, id="the sum of none"),
    ],
)
def test_arithmetic(actual: Resources, expected: Resources) -> None:
    assert expected == actual
    assert hash(expected) == hash(actual)


def test_only_a_vector_without_amounts_is_false() -> None:
    assert [bool(NO_RESOURCES), bool(vector(gpu=1)), bool(vector(cpu=-1))] == [False, True, True]


def test_a_vector_is_not_its_mapping() -> None:
    assert vector(cpu=1) != {"cpu": 1}

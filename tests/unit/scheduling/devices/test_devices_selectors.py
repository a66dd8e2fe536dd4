"""CEL selectors see devices as Kubernetes shows them."""

import pytest

from karpenter.scheduling.devices.inputs import SharedAttribute
from karpenter.scheduling.devices.inventory import PoolDevice, template_pools
from karpenter.scheduling.devices.selectors import Selector, SelectorError
from unit.scheduling.devices.device_objects import DRIVER, device, published

DEVICE = device(
    "gpu-0",
    {"model": "a100", "index": 3, "mig": True, "other.test/rack": "r1"},
    {"memory": "40Gi", "other.test/lanes": "8"},
    versions={"firmware": "1.10.0-rc.1"},
    shared=True,
)


def one(promises: tuple[SharedAttribute, ...] = ()) -> PoolDevice:
    (pool,) = template_pools([published([DEVICE])], promises)
    (only,) = pool.devices
    return only


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('device.driver == "gpu.test"', True),
        ('device.driver == "other.test"', False),
        ('device.attributes["gpu.test"].model == "a100"', True),
        ("device.attributes['gpu.test'].index >= 4", False),
        ('device.attributes["gpu.test"].mig', True),
        ('device.attributes["other.test"].rack.startsWith("r")', True),
        ('has(device.attributes["gpu.test"].nothing)', False),
        ('has(device.attributes["nobody.test"].model)', False),
        ('"model" in device.attributes["nobody.test"]', False),
        ('"nobody.test" in device.attributes && device.attributes["nobody.test"].model', False),
        ('"gpu.test" in device.attributes', True),
        ('device.capacity["gpu.test"].memory.compareTo(quantity("40Gi")) >= 0', True),
        ('device.capacity["gpu.test"].memory.isGreaterThan(quantity("40Gi"))', False),
        ('device.capacity["other.test"].lanes == quantity("8")', True),
        ('has(device.capacity["nobody.test"].lanes)', False),
        ("device.allowMultipleAllocations", True),
        ('device.attributes["gpu.test"].firmware.isGreaterThan(semver("1.9.9"))', True),
        ('device.attributes["gpu.test"].firmware.isLessThan(semver("1.10.0"))', True),
        ('device.attributes["gpu.test"].firmware.major() == 1', True),
        ('cel.bind(gpu, device.attributes["gpu.test"], gpu.mig && gpu.index == 3)', True),
        ('cel.bind(a, 1, cel.bind(b, a + 1, b == 2)) && "(," == "(,"', True),
        ('"device.attributes[" == "device.attributes["', True),
    ],
)
def test_what_a_selector_sees(expression: str, expected: bool) -> None:
    assert expected is Selector(expression).matches(one())


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ('device.attributes["gpu.test"].nothing == 1', "no such key: nothing"),
        ('device.attributes["nobody.test"].model == ""', "no such key: model"),
        ('device.attributes["gpu.test"].model > 3', "gpu-0"),
        ('device.attributes["gpu.test"].model', "something else than a bool"),
    ],
)
def test_a_selector_that_fails_says_so_every_time(expression: str, problem: str) -> None:
    selector = Selector(expression)

    for _ in range(2):
        with pytest.raises(SelectorError, match=problem):
            selector.matches(one())


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("device.driver ==", "cannot be compiled"),
        ("machine.driver == 'x'", "undeclared reference to 'machine'"),
        ("device.driver.shout()", "undeclared reference to the function 'shout'"),
        ("cel.bind(a, 1)", "cannot be compiled"),
        ("(device.driver == 'x'", "cannot be compiled"),
        ('device.attributes["gpu.test"].?model.orValue("") == ""', "optional syntax"),
    ],
)
def test_a_selector_that_cannot_work_is_refused(expression: str, problem: str) -> None:
    with pytest.raises(SelectorError, match=problem):
        Selector(expression)


def test_an_attribute_that_is_only_promised_has_no_value_yet() -> None:
    root = SharedAttribute("gpu.test/root", frozenset({(DRIVER, "pool", "gpu-0")}))

    promised = one((root,))

    assert Selector('!has(device.attributes["gpu.test"].root)').matches(promised)


def test_a_pattern_of_a_tenant_takes_linear_time() -> None:
    """An engine that tries one way after the other would not come back from this one."""
    text = "a" * 64 + "!"

    assert not Selector(f"'{text}'.matches('^(a|a)*$')").matches(one())

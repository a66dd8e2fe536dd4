"""Claims that nothing could ever serve are refused, with what is wrong about them."""

import pytest

from karpenter.api.devices import (
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaim,
)
from karpenter.scheduling.devices.requests import Compiler, UnservableClaimError
from unit.scheduling.devices.device_objects import claim, device_class, exactly, first_available

CLASSES = [device_class()]


def asking(
    selectors: tuple[DeviceSelector, ...] = (), allocation_mode: str = "ExactCount"
) -> DeviceRequest:
    return DeviceRequest(
        name="r",
        exactly=ExactDeviceRequest(
            device_class_name="gpu", selectors=selectors, allocation_mode=allocation_mode
        ),
    )


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        pytest.param(claim("c", exactly(count=33)), "at most 32", id="too many devices"),
        pytest.param(claim("c", exactly(count=0)), "asks for 0 devices", id="no device at all"),
        pytest.param(
            claim("c", exactly(device_class="tpu")), "class tpu, which does not exist", id="class"
        ),
        pytest.param(
            claim("c", constraints=[DeviceConstraint(distinct_attribute="x/y")]),
            "distinctAttribute",
            id="distinct attributes",
        ),
        pytest.param(
            claim("c", constraints=[DeviceConstraint()]), "of this kind", id="unknown constraint"
        ),
        pytest.param(
            claim("c", exactly("r", 1, "device.")), "cannot be compiled", id="bad expression"
        ),
        pytest.param(claim("c", exactly(capacity={"m": "-1"})), "negative", id="a negative amount"),
        pytest.param(claim("c", first_available("w")), "not supported", id="no kind of request"),
        pytest.param(
            claim("c", asking(selectors=(DeviceSelector(),))), "use CEL", id="not a CEL selector"
        ),
        pytest.param(
            claim("c", asking(allocation_mode="Most")), "allocation mode Most", id="unknown mode"
        ),
    ],
)
def test_claims_that_nothing_could_serve(wanted: ResourceClaim, problem: str) -> None:
    with pytest.raises(UnservableClaimError, match=problem):
        Compiler(CLASSES).compiled_claim(wanted.spec)

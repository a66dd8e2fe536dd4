"""A share of a capacity is rounded up to what the device allows, or refused."""

import pytest

from karpenter.api.devices import CapacityRequestPolicy, CapacityRequestRange, DeviceCapacity
from karpenter.model.quantity import QuantityError
from karpenter.scheduling.devices.amounts import amount, capacity_of

DEFAULT = CapacityRequestPolicy(default="2Gi")
VALUES = CapacityRequestPolicy(default="1Gi", valid_values=("8Gi", "1Gi", "4Gi"))
STEPS = CapacityRequestPolicy(
    default="2Gi", valid_range=CapacityRequestRange(min="2Gi", max="8Gi", step="3Gi")
)
OPEN = CapacityRequestPolicy(valid_range=CapacityRequestRange(min="500m"))


@pytest.mark.parametrize(
    ("policy", "wanted", "granted"),
    [
        pytest.param(None, None, "10Gi", id="no wish and no policy takes all of it"),
        pytest.param(None, "3Gi", "3Gi", id="a wish without a policy is granted as it is"),
        pytest.param(DEFAULT, None, "2Gi", id="no wish gets the default"),
        pytest.param(DEFAULT, "3Gi", "3Gi", id="a default does not bind wishes"),
        pytest.param(VALUES, "1", "1Gi", id="the least valid value that is enough"),
        pytest.param(VALUES, "1Gi", "1Gi", id="a valid value is granted as it is"),
        pytest.param(VALUES, "5Gi", "8Gi", id="values may come in any order"),
        pytest.param(VALUES, "9Gi", None, id="beyond the largest value there is nothing"),
        pytest.param(STEPS, "1Gi", "2Gi", id="the range begins at its minimum"),
        pytest.param(STEPS, "3Gi", "5Gi", id="steps count from the minimum"),
        pytest.param(STEPS, "5Gi", "5Gi", id="a step is granted as it is"),
        pytest.param(STEPS, "7Gi", "8Gi", id="the last step"),
        pytest.param(STEPS, "9Gi", None, id="beyond the range there is nothing"),
        pytest.param(OPEN, "0.2", "0.5", id="fractions count"),
        pytest.param(OPEN, "700m", "700m", id="no step means any amount"),
    ],
)
def test_what_is_granted(
    policy: CapacityRequestPolicy | None, wanted: str | None, granted: str | None
) -> None:
    capacity = capacity_of(DeviceCapacity(value="10Gi", request_policy=policy))

    answer = capacity.granted(None if wanted is None else amount(wanted))

    assert (None if granted is None else amount(granted)) == answer


@pytest.mark.parametrize("text", ["-1", "lots", ""])
def test_amounts_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        amount(text)

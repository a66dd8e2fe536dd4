"""What evicting a pod costs: its owner's annotation first, then its priority, within bounds."""

from collections.abc import Mapping

import pytest

from helpers.builders import pod
from karpenter.model.labels import DISRUPTION_COST
from karpenter.state.eviction_cost import POD_DELETION_COST, eviction_cost

UNIT = str(2**27)


@pytest.mark.parametrize(
    ("annotations", "ours", "expected"),
    [
        pytest.param({}, False, 1.0, id="an-ordinary-pod-costs-one"),
        pytest.param({DISRUPTION_COST: UNIT}, False, 2.0, id="V15-S03 the-owner-says-so"),
        pytest.param(
            {DISRUPTION_COST: "abc", POD_DELETION_COST: UNIT},
            False,
            1.0,
            id="V15-S04 an-unreadable-cost-does-not-fall-back",
        ),
        pytest.param({POD_DELETION_COST: UNIT}, False, 2.0, id="V15-S05 deletion-cost-gate-off"),
        pytest.param({POD_DELETION_COST: UNIT}, True, 1.0, id="V15-S05 deletion-cost-gate-on"),
        pytest.param({POD_DELETION_COST: "1.5"}, False, 1.0, id="V15-S06 no-fractions"),
        pytest.param({POD_DELETION_COST: "2147483648"}, False, 1.0, id="V15-S06 not-32-bits"),
        pytest.param({POD_DELETION_COST: " 5"}, False, 1.0, id="no-blanks"),
        pytest.param({POD_DELETION_COST: "1e3"}, False, 1.0, id="no-exponents"),
        pytest.param({DISRUPTION_COST: "-2147483648"}, False, -10.0, id="never-below-minus-ten"),
        pytest.param({DISRUPTION_COST: "2147483647"}, False, 10.0, id="never-above-ten"),
    ],
)
def test_eviction_cost(annotations: Mapping[str, str], ours: bool, expected: float) -> None:
    cost = eviction_cost(pod(annotations=annotations), deletion_cost_is_ours=ours)

    assert expected == cost


def test_priority_counts_as_well() -> None:
    assert 2.0 == eviction_cost(pod(priority=2**25))

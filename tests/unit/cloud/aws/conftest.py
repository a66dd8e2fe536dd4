"""Which tests of the AWS provider are for the fast tier: those that need no simulated AWS."""

from pathlib import Path

import pytest

# A simulated account takes moto a second to make, and a launch another
SIMULATED = frozenset(
    {
        "test_aws_class_controller.py",
        "test_aws_contract.py",
        "test_aws_faults.py",
        "test_aws_gaps.py",
        "test_aws_housekeeping.py",
        "test_aws_interruption.py",
        "test_aws_isolated.py",
        "test_aws_launch.py",
        "test_aws_launch_cases.py",
        "test_aws_launch_design.py",
        "test_aws_making.py",
        "test_aws_node_class.py",
        "test_aws_offering_gauges.py",
        "test_aws_permissions.py",
        "test_aws_upkeep_cases.py",
    }
)
HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before the ledger asks which tier a test belongs to
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and item.path.name in SIMULATED:
            item.add_marker(pytest.mark.storm)

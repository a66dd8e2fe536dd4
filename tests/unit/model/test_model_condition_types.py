"""Types of conditions have one definition, so that none can be misspelt in one place only."""

import ast
from pathlib import Path

import karpenter
from karpenter.model import conditions

# Those that are nothing else besides: "Drifted" is a reason of budgets too, "Ready" a word
TYPES = {
    conditions.AMIS_READY,
    conditions.CONSISTENT_STATE_FOUND,
    conditions.CONSOLIDATABLE,
    conditions.DRAINED,
    conditions.INITIALIZED,
    conditions.LAUNCHED,
    conditions.NODE_CLASS_READY,
    conditions.NODE_REGISTRATION_HEALTHY,
    conditions.POD_SCHEDULED,
    conditions.REGISTERED,
    conditions.VALIDATION_SUCCEEDED,
    conditions.VOLUMES_DETACHED,
}


def test_types_of_conditions_are_spelt_out_once() -> None:
    root = Path(karpenter.__file__).parent
    spelt = [
        (path.relative_to(root).as_posix(), node.value)
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in TYPES
    ]

    assert sorted(spelt) == [("model/conditions.py", each) for each in sorted(TYPES)]

"""What the tests of the runtime and legacy rules share: reading findings, odd input, seed files."""

from typing import Any

import pytest
import yaml
from hypothesis import strategies as st

from helpers.seeds import ABSENT, SEEDS
from karpenter.admission.errors import FieldError, Findings

_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["", "-1", "5%", "1Gi", "In", "Gt", "NoSchedule", "karpenter.sh/nodepool"])
)


def json_values(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Any JSON-like value; ``keys`` name the fields worth hitting."""
    return st.recursive(
        _scalars,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(keys | st.text(max_size=5), inner, max_size=4)
        ),
        max_leaves=12,
    )


def refused(errors: list[FieldError] | Findings) -> list[str]:
    """The paths of the errors, in order."""
    found = errors.errors if isinstance(errors, Findings) else errors
    return [error.field for error in found]


def warned(findings: Findings) -> list[str]:
    """The warnings as one line each, in order."""
    return [str(warning) for warning in findings.warnings]


def rendered(findings: Findings) -> list[str]:
    """Every finding as the line a user sees."""
    return [str(finding) for finding in (*findings.errors, *findings.warnings)]


def seed(name: str) -> list[dict[str, Any]]:
    """The documents of a seed manifest."""
    path = SEEDS / f"{name}.yaml"
    if not path.exists():
        pytest.skip(ABSENT)
    return list(yaml.safe_load_all(path.read_text("utf-8")))

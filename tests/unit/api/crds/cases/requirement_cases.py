"""Requirements and taints that every kind with such lists accepts or refuses alike.

Refused ones name the field of the requirement or taint that the refusal must point at.
"""

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from helpers.crd_cases import values_of
from unit.api.crds.cases.label_key_cases import refused_keys

V1_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")
OLD_OPERATORS = V1_OPERATORS[:6]
NUMERIC = ("Gt", "Lt", "Gte", "Lte")
KEY = "example.com/team"
LONGEST_KEY = "a" * 252 + "/" + "b" * 63  # 316 characters
FULL_TAINT = {
    "key": "a",
    "value": "b",
    "effect": "NoExecute",
    "timeAdded": "2030-01-01T00:00:00Z",
}
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def requirement(operator: str = "Exists", **fields: Any) -> dict[str, Any]:
    return {"key": KEY, "operator": operator, **fields}


def taint(**fields: Any) -> dict[str, Any]:
    return {"key": KEY, "effect": "NoSchedule", **fields}


def accepted_operators(operators: Iterable[str]) -> list[ParameterSet]:
    """One requirement for every operator, and every number a numeric one takes."""
    values = {"In": ["a"], "NotIn": ["a", "b"]}
    cases = [
        pytest.param(
            requirement(operator, values=values.get(operator, [])),
            id=f"{operator}-with-{len(values.get(operator, []))}-values",
        )
        for operator in operators
        if operator not in NUMERIC
    ]
    cases += [
        pytest.param(requirement(operator, values=[number]), id=f"{operator}-{number}")
        for operator in operators
        if operator in NUMERIC
        for number in ("0", "1", "9223372036854775807")
    ]
    return cases


def refused_operators(operators: Iterable[str]) -> list[ParameterSet]:
    """For every operator that needs values, each way of not giving them."""
    cases = [
        pytest.param(requirement("In", values=[]), "values", id="In-with-an-empty-list"),
        pytest.param(requirement("In"), "values", id="In-without-values"),
        pytest.param(requirement("in", values=["a"]), "operator", id="operator-in-lower-case"),
        pytest.param(requirement(""), "operator", id="empty-operator"),
        pytest.param({"key": KEY}, "operator", id="no-operator"),
        pytest.param({"operator": "Exists"}, "key", id="no-key"),
    ]
    wrong: dict[str, list[str] | None] = {
        "no-values": None,
        "an-empty-list": [],
        "two-values": ["1", "2"],
        "a-word": ["abc"],
        "nothing-in-it": [""],
        "a-negative-number": ["-1"],
        "a-fraction": ["1.5"],
        "a-number-beyond-64-bits": ["9223372036854775808"],
    }
    cases += [
        pytest.param(
            requirement(operator) if values is None else requirement(operator, values=values),
            "values",
            id=f"{operator}-with-{case}",
        )
        for operator in operators
        if operator in NUMERIC
        for case, values in wrong.items()
    ]
    cases += [
        pytest.param(requirement(operator, values=["1"]), "operator", id=f"{operator}-is-unknown")
        for operator in V1_OPERATORS
        if operator not in tuple(operators)
    ]
    return cases


ACCEPTED_KEYS = [
    pytest.param("team", id="a-name-without-prefix"),
    pytest.param("example.com/Team_1.a-b", id="a-name-with-all-signs"),
    pytest.param("x", id="one-letter"),
    pytest.param(LONGEST_KEY, id="316-characters"),
]
REFUSED_KEYS = [
    pytest.param("???", id="question-marks"),
    pytest.param("a/b/c", id="two-slashes"),
    pytest.param("Example.com/team", id="upper-case-prefix"),
    pytest.param("example..com/team", id="empty-part-in-the-prefix"),
    pytest.param("example.com/", id="no-name"),
    pytest.param("/team", id="empty-prefix"),
    pytest.param("-team", id="a-leading-dash"),
    pytest.param("team.", id="a-trailing-dot"),
    pytest.param("te am", id="a-blank"),
    pytest.param("", id="nothing"),
    pytest.param(LONGEST_KEY + "b", id="317-characters"),
    pytest.param(7, id="a-number"),
]

# Their length and form is judged by the controllers, not by the API server
ODD_BUT_ACCEPTED_VALUES = [
    pytest.param(requirement("In", values=["hi there"]), id="a-value-with-a-blank"),
    pytest.param(requirement("In", values=["x" * 64]), id="a-value-of-64-characters"),
    pytest.param(requirement("In", values=["x" * 65536]), id="a-value-of-65536-characters"),
    pytest.param(requirement("In", values=[""]), id="an-empty-value"),
    pytest.param(requirement("In", values=["a", "a"]), id="the-same-value-twice"),
    pytest.param(requirement("Exists", values=["a"]), id="Exists-with-values"),
    pytest.param(requirement("DoesNotExist", values=["a"]), id="DoesNotExist-with-values"),
]
NOT_IN_WITHOUT_VALUES = [
    pytest.param(requirement("NotIn"), id="NotIn-without-values"),
    pytest.param(requirement("NotIn", values=[]), id="NotIn-with-an-empty-list"),
]

ACCEPTED_MIN_VALUES = [
    pytest.param(requirement("Exists", minValues=1), id="at-least-1"),
    pytest.param(requirement("Exists", minValues=50), id="at-least-50"),
    pytest.param(requirement("In", values=["a", "b"], minValues=2), id="as-many-as-values"),
    pytest.param(requirement("In", values=["a", "a"], minValues=2), id="duplicates-count"),
    pytest.param(requirement("NotIn", values=["a"], minValues=2), id="NotIn-lists-fewer-values"),
]
REFUSED_MIN_VALUES = [
    pytest.param(requirement("Exists", minValues=0), id="at-least-0"),
    pytest.param(requirement("Exists", minValues=51), id="at-least-51"),
    pytest.param(requirement("Exists", minValues="2"), id="a-word"),
    pytest.param(requirement("In", values=["a"], minValues=2), id="In-lists-fewer-values"),
]


def refused_requirements(operators: Iterable[str], place: str) -> list[dict[str, Any]]:
    """Every requirement that a place of ``label_key_cases`` with these operators refuses."""
    return [
        *(given for given, *_ in values_of(refused_operators(operators))),
        *(given for (given,) in values_of(REFUSED_MIN_VALUES)),
        *(requirement(key=key) for key in refused_keys(place)),
    ]


ACCEPTED_TAINTS = [
    *(pytest.param(taint(effect=effect), id=effect) for effect in EFFECTS),
    pytest.param(taint(value="special"), id="with-a-value"),
    pytest.param(taint(value="example.com/special"), id="with-a-value-like-a-key"),
    pytest.param(taint(timeAdded="2030-01-01T00:00:00Z"), id="with-the-time-it-was-added"),
    pytest.param(taint(key=LONGEST_KEY), id="with-a-key-of-316-characters"),
]
REFUSED_TAINTS = [
    pytest.param({"effect": "NoSchedule"}, "key", id="no-key"),
    pytest.param(taint(key=""), "key", id="empty-key"),
    pytest.param(taint(key="???"), "key", id="key-of-question-marks"),
    pytest.param(taint(key=LONGEST_KEY + "b"), "key", id="key-of-317-characters"),
    pytest.param({"key": KEY}, "effect", id="no-effect"),
    pytest.param(taint(effect=""), "effect", id="empty-effect"),
    pytest.param(taint(effect="NoSchedul"), "effect", id="misspelt-effect"),
    pytest.param(taint(value=""), "value", id="explicitly-empty-value"),
    pytest.param(taint(value="a b"), "value", id="value-with-a-blank"),
    pytest.param(taint(timeAdded="yesterday"), "timeAdded", id="added-yesterday"),
]

ACCEPTED_DURATIONS = ("0s", "90s", "30m", "720h", "1h30m", "1h30m15s", "30m1h")
REFUSED_DURATIONS = ("1d", "500ms", "1.5h", "-5m", "", "30", "never", "Never5m", "5m ", "h", 30)

ACCEPTED_QUANTITIES = (0, 1, 1000, "1000", "500m", "1000Gi", "1.5", ".5", "5.", "1e3", "1E", "+1")
REFUSED_QUANTITIES = ("abc", "", "1 Gi", "1gi", "1e", "Gi", 1.5, True, {"cpu": 1}, ["1"])

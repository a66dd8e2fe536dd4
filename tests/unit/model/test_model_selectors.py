"""Selectors are written as kubectl writes them."""

import pytest

from helpers.builders import selector
from karpenter.api.selectors import LabelSelector
from karpenter.model.selectors import format_selector


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        pytest.param(None, "no pods", id="no selector"),
        pytest.param(selector(), "all pods", id="an empty one"),
        pytest.param(selector({"b": "2", "a": "1"}), "a=1,b=2", id="labels"),
        pytest.param(
            selector(
                {"app": "web"},
                ("tier", "In", ("a", "b")),
                ("old", "NotIn", ("x",)),
                ("team", "Exists", ()),
                ("gone", "DoesNotExist", ()),
            ),
            "app=web,tier in (a,b),old notin (x),team,!gone",
            id="expressions",
        ),
    ],
)
def test_a_selector_for_people(given: LabelSelector | None, shown: str) -> None:
    assert shown == format_selector(given)

"""A pod may come to a node exactly when each of its taints meets a toleration that covers it."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.api.nodes import Taint
from karpenter.api.pods import Toleration
from karpenter.model.taints import EFFECTS, first_untolerated

QUICK = settings(max_examples=80, deadline=None)

values = st.sampled_from(["", "v", "1", "2", "10", "-1", "01"])
taints = st.builds(
    Taint, key=st.sampled_from(["a", "b"]), value=values, effect=st.sampled_from(EFFECTS)
)
tolerations = st.builds(
    Toleration,
    key=st.sampled_from(["", "a", "b"]),
    operator=st.sampled_from(["", "Equal", "Exists", "Lt", "Gt", "Never"]),
    value=values,
    effect=st.sampled_from(["", *EFFECTS]),
)


def covers(toleration: Toleration, taint: Taint) -> bool:
    whole = re.compile(r"0|-?[1-9][0-9]*").fullmatch
    numeric = bool(whole(taint.value) and whole(toleration.value))
    value_matches = {
        "Exists": True,
        "Equal": taint.value == toleration.value,
        "": taint.value == toleration.value,
        "Gt": numeric and int(taint.value) > int(toleration.value),
        "Lt": numeric and int(taint.value) < int(toleration.value),
        "Never": False,
    }
    return (
        toleration.key in ("", taint.key)
        and toleration.effect in ("", taint.effect)
        and value_matches[toleration.operator]
    )


@QUICK
@given(st.lists(taints, max_size=4), st.lists(tolerations, max_size=4), st.booleans())
def test_the_first_uncovered_taint_keeps_the_pod_away(
    node: list[Taint], pod: list[Toleration], ignore_preferences: bool
) -> None:
    uncovered = [
        taint
        for taint in node
        if not (ignore_preferences and taint.effect == "PreferNoSchedule")
        and not any(covers(toleration, taint) for toleration in pod)
    ]

    actual = first_untolerated(node, pod, ignore_preferences=ignore_preferences)

    assert (uncovered[0] if uncovered else None) == actual

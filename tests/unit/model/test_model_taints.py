"""Taints keep pods away that do not tolerate them, exactly as Kubernetes decides it."""

import pytest

from karpenter.api.nodes import Taint
from karpenter.api.pods import Toleration
from karpenter.model import taints
from karpenter.model.taints import (
    first_untolerated,
    format_taint,
    is_known_ephemeral,
    matches,
    tolerates,
)

TAINT = Taint(key="k", value="v", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        pytest.param(
            Toleration(key="k", operator="Exists"), True, id="SCH-211 key exists, any effect"
        ),
        pytest.param(
            Toleration(key="k", operator="Exists", effect="NoSchedule"),
            True,
            id="SCH-211 key exists",
        ),
        pytest.param(Toleration(operator="Exists"), True, id="SCH-211 everything is tolerated"),
        pytest.param(
            Toleration(key="k", operator="Equal", value="v"), True, id="SCH-211 equal value"
        ),
        pytest.param(Toleration(key="k", value="v"), True, id="no operator means Equal"),
        pytest.param(Toleration(key="x", operator="Exists"), False, id="SCH-211 wrong key"),
        pytest.param(
            Toleration(key="k", operator="Equal", value="w"), False, id="SCH-211 wrong value"
        ),
        pytest.param(Toleration(key="k"), False, id="no value is not any value"),
        pytest.param(
            Toleration(key="k", operator="Exists", effect="NoExecute"), False, id="wrong effect"
        ),
        pytest.param(
            Toleration(operator="Exists", effect="NoExecute"), False, id="everything of one effect"
        ),
        pytest.param(Toleration(key="k", operator="Sometimes"), False, id="unknown operator"),
        pytest.param(
            Toleration(key="k", operator="Exists", value="w"), True, id="Exists ignores the value"
        ),
    ],
)
def test_tolerates(toleration: Toleration, tolerated: bool) -> None:
    assert tolerated is tolerates(toleration, TAINT)


@pytest.mark.parametrize(
    ("operator", "value", "limit", "tolerated"),
    [
        pytest.param("Gt", "5", "3", True, id="SCH-212 five is more than three"),
        pytest.param("Lt", "5", "3", False, id="SCH-212 five is not less than three"),
        pytest.param("Gt", "3", "3", False, id="equal is not more"),
        pytest.param("Lt", "3", "3", False, id="equal is not less"),
        pytest.param("Lt", "-5", "3", True, id="a negative number is less"),
        pytest.param("Gt", "10", "9", True, id="numbers, not text, are compared"),
        pytest.param("Gt", "high", "3", False, id="a word is not a number"),
        pytest.param("Gt", "5", "low", False, id="a word is no limit"),
        pytest.param("Gt", "05", "3", False, id="leading zeros make no number"),
        pytest.param("Gt", "+5", "3", False, id="a plus makes no number"),
        pytest.param("Gt", str(2**63), "3", False, id="beyond 64 bits"),
        pytest.param("Gt", "", "3", False, id="no value at all"),
    ],
)
def test_numeric_tolerations(operator: str, value: str, limit: str, tolerated: bool) -> None:
    toleration = Toleration(key="k", operator=operator, value=limit)

    assert tolerated is tolerates(toleration, Taint(key="k", value=value, effect="NoSchedule"))


SOFT = Taint(key="soft", effect="PreferNoSchedule")
HARD = Taint(key="hard", effect="NoExecute")


@pytest.mark.parametrize(
    ("held", "ignore_preferences", "untolerated"),
    [
        pytest.param([], False, SOFT, id="a preference counts like a rule"),
        pytest.param([], True, HARD, id="unless preferences are ignored"),
        pytest.param(["soft"], False, HARD, id="one toleration is not enough for two taints"),
        pytest.param(["soft", "hard"], False, None, id="every taint is tolerated"),
        pytest.param(["hard"], True, None, id="only the rule needs tolerating"),
    ],
)
def test_the_first_taint_in_the_way_is_named(
    held: list[str], ignore_preferences: bool, untolerated: Taint | None
) -> None:
    tolerations = (Toleration(key=key, operator="Exists") for key in held)

    actual = first_untolerated([SOFT, HARD], tolerations, ignore_preferences=ignore_preferences)

    assert untolerated == actual


def test_no_taints_keep_nobody_away() -> None:
    assert first_untolerated([], []) is None


@pytest.mark.parametrize(
    ("taint", "ephemeral"),
    [
        (Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule"), True),
        (Taint(key="node.kubernetes.io/not-ready", effect="NoExecute"), True),
        (Taint(key="node.kubernetes.io/unreachable", effect="NoSchedule"), True),
        (Taint(key="node.kubernetes.io/unreachable", effect="NoExecute"), False),
        (
            Taint(
                key="node.cloudprovider.kubernetes.io/uninitialized",
                value="true",
                effect="NoSchedule",
            ),
            True,
        ),
        (Taint(key="karpenter.sh/unregistered", effect="NoExecute"), True),
        (Taint(key="readiness.k8s.io/network", effect="NoSchedule"), True),
        (Taint(key="karpenter.sh/disrupted", effect="NoSchedule"), False),
        (Taint(key="karpenter.sh/rebooting", effect="NoSchedule"), False),
        (Taint(key="example.com/startup", effect="NoSchedule"), False),
    ],
    ids=lambda value: format_taint(value) if isinstance(value, Taint) else str(value),
)
def test_known_ephemeral_taints(taint: Taint, ephemeral: bool) -> None:
    assert ephemeral is is_known_ephemeral(taint)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param(Taint(key="k", value="w", effect="NoSchedule"), True, id="another value"),
        pytest.param(Taint(key="k", value="v", effect="NoExecute"), False, id="another effect"),
        pytest.param(Taint(key="x", value="v", effect="NoSchedule"), False, id="another key"),
    ],
)
def test_a_taint_is_known_by_key_and_effect(other: Taint, same: bool) -> None:
    assert same is matches(TAINT, other)


@pytest.mark.parametrize(
    ("taint", "text"),
    [
        (TAINT, "k=v:NoSchedule"),
        (taints.UNREGISTERED, "karpenter.sh/unregistered:NoExecute"),
        (taints.DISRUPTED, "karpenter.sh/disrupted:NoSchedule"),
        (taints.REBOOTING, "karpenter.sh/rebooting:NoSchedule"),
    ],
)
def test_a_taint_is_written_as_kubectl_does(taint: Taint, text: str) -> None:
    assert text == format_taint(taint)

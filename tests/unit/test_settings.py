"""Settings: one name each, read strictly from flags and forgivingly from the environment."""

from datetime import timedelta

import pytest

from karpenter.settings import (
    DEFAULT_GATES,
    SettingError,
    Settings,
    from_environment,
    parse_gates,
    with_assignments,
)


def test_defaults_hold_for_an_empty_environment() -> None:
    assert Settings() == from_environment({})


@pytest.mark.row("S2-16")
def test_metrics_are_served_on_port_8080_unless_something_else_is_asked_for() -> None:
    assert 8080 == Settings().metrics_port
    assert 9090 == from_environment({"METRICS_PORT": "9090"}).metrics_port


@pytest.mark.parametrize(
    ("name", "text", "field", "expected"),
    [
        pytest.param("PREFERENCE_POLICY", "Ignore", "preference_policy", "Ignore", id="choice"),
        pytest.param("preference-policy", "Ignore", "preference_policy", "Ignore", id="as-a-flag"),
        pytest.param("METRICS_PORT", "9090", "metrics_port", 9090, id="number"),
        pytest.param("IGNORE_DRA_REQUESTS", "false", "ignore_dra_requests", False, id="boolean"),
        pytest.param(
            "BATCH_MAX_DURATION", "1m30s", "batch_max_duration", timedelta(seconds=90), id="time"
        ),
    ],
)
def test_a_setting_can_be_assigned(name: str, text: str, field: str, expected: object) -> None:
    changed = with_assignments(Settings(), {name: text})

    assert expected == getattr(changed, field)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        pytest.param("PREFERENCE_POLICY", "ignore", "use Respect or Ignore", id="wrong-choice"),
        pytest.param("METRICS_DETAIL", "pods", "use object or pool", id="wrong-detail"),
        pytest.param("PREFERENC_POLICY", "Ignore", "did you mean PREFERENCE_POLICY", id="typo"),
        pytest.param("METRICS_PORT", "many", "METRICS_PORT: 'many' is not a whole", id="number"),
        pytest.param("BATCH_IDLE_DURATION", "-1s", "is not a duration", id="negative-time"),
        pytest.param("ENABLE_PROFILING", "yes", "neither true nor false", id="boolean"),
        pytest.param("FEATURE_GATES", "NodeOverlay=", "needs true or false", id="gate"),
    ],
)
def test_an_assignment_that_makes_no_sense_is_refused(name: str, text: str, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        with_assignments(Settings(), {name: text})


def test_an_unreadable_number_in_the_environment_falls_back() -> None:
    assert 8080 == from_environment({"METRICS_PORT": "many"}).metrics_port


def test_an_unreadable_choice_in_the_environment_is_refused() -> None:
    with pytest.raises(SettingError, match="MIN_VALUES_POLICY"):
        from_environment({"MIN_VALUES_POLICY": "Lax"})


@pytest.mark.case("V15-S38")
def test_gates_that_are_not_named_keep_their_defaults() -> None:
    gates = parse_gates("TerminateFirstDrift=true")

    expected = {**DEFAULT_GATES, "TerminateFirstDrift": True}
    assert expected == dict(gates.gates)


def test_an_unknown_gate_is_accepted_and_off_unless_named() -> None:
    assert parse_gates("Future=true")["Future"]
    assert not parse_gates("")["Future"]

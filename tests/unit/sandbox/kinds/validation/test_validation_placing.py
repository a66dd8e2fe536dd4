"""Where pods may run is judged in one go, however much is listed."""

import pytest

from karpenter_sandbox.kinds.validation import placing


def test_constraints_by_the_thousand_are_not_compared_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at = 0
    key_of = placing._spread_key

    def counting(constraint: dict[str, object]) -> tuple[str, str]:
        nonlocal looked_at
        looked_at += 1
        return key_of(constraint)

    monkeypatch.setattr(placing, "_spread_key", counting)
    constraints = [
        {"maxSkew": 1, "topologyKey": f"example.com/k{n}", "whenUnsatisfiable": "ScheduleAnyway"}
        for n in range(1000)
    ]

    problems = list(placing.placing_problems({"topologySpreadConstraints": constraints}, ()))

    assert [] == problems
    assert looked_at <= 3 * len(constraints)


def test_a_constraint_that_comes_again_is_told_but_for_the_last_time() -> None:
    one = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    other = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}

    problems = list(placing.placing_problems({"topologySpreadConstraints": [one, other, one]}, ()))

    assert 1 == len(problems)
    assert "Duplicate" in str(problems[0])

"""The sandbox answers as a real control plane does, except where ``docs/sandbox.md`` says why not.

Every operation of ``operations/*.yaml`` runs against both. An unlisted difference fails,
and so does a listed one that is gone.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from control_plane.cluster import ControlPlane
from differential.clusters import Cluster
from differential.comparing import unexplained
from differential.operations import differences_in_use, known_differences, scenarios
from differential.running import Compared, compare, make_alike

SCENARIOS: Final = scenarios()
KNOWN: Final = known_differences()
EVERYWHERE: Final = {name: known.everywhere for name, known in KNOWN.items() if known.everywhere}
PAGE: Final = Path(__file__).parents[3] / "docs" / "sandbox.md"
# A row of the table of differences: the name of the difference and its reason
ROW: Final = re.compile(r"^\| `([a-z-]+)` \| (.+) \|$", re.MULTILINE)
SECTION: Final = "## Differences from a real API server"

Answers = Callable[[str], Mapping[str, Compared]]


@pytest.fixture(scope="module")
def answers(kubectl: str, sandbox: Cluster, control_plane: ControlPlane) -> Answers:
    """The answers of both clusters to a scenario, which runs when it is first asked for."""
    assert kubectl
    real = Cluster(
        control_plane.url, control_plane.token, control_plane.kubeconfig, control_plane.tls
    )
    make_alike(real)
    found: dict[str, Mapping[str, Compared]] = {}

    def answers_to(name: str) -> Mapping[str, Compared]:
        if name not in found:
            found[name] = compare(SCENARIOS[name], sandbox, real)
        return found[name]

    return answers_to


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "operation"),
    [
        pytest.param(name, operation.id, id=f"{name}: {operation.id}")
        for name, scenario in SCENARIOS.items()
        for operation in scenario.operations
    ],
)
def test_both_answer_alike(answers: Answers, scenario: str, operation: str) -> None:
    compared = answers(scenario)[operation]

    problems = unexplained(compared.differences(), compared.operation.differs, EVERYWHERE)

    assert not problems, "\n".join(problems)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERYWHERE)
def test_a_listed_difference_is_still_there(answers: Answers, name: str) -> None:
    found = [
        difference
        for scenario in SCENARIOS
        for compared in answers(scenario).values()
        for difference in compared.differences()
    ]

    gone = [place for place in EVERYWHERE[name] if not any(each.is_at(place) for each in found)]

    assert [] == gone


def test_there_are_enough_operations() -> None:
    assert sum(len(scenario.operations) for scenario in SCENARIOS.values()) >= 150


def test_every_known_difference_shows_somewhere() -> None:
    assert sorted(differences_in_use()) == sorted(KNOWN)


def test_the_page_gives_the_reason_of_each_difference() -> None:
    _, _, section = PAGE.read_text("utf-8").partition(SECTION)

    documented = dict(ROW.findall(section.partition("\n## ")[0]))

    assert {name: known.reason for name, known in KNOWN.items()} == documented

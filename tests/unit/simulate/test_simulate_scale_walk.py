"""The scale walk as a scenario: the same nodes after the same steps as on a sandbox."""

from pathlib import Path

import pytest

from helpers.simulated import Watched
from karpenter.simulate.runs import setup_of
from karpenter.simulate.scenario.reader import Options, load
from karpenter.simulate.variant_run import run_world
from karpenter.simulate.world import Hooks

SCENARIO = Path(__file__).resolve().parents[3] / "examples" / "scale-walk" / "scenario.yaml"
MINUTE = 60.0


@pytest.mark.slow
@pytest.mark.case("SIM-11")
def test_the_walk_has_the_same_nodes_in_virtual_time() -> None:
    loaded = load(SCENARIO.name, SCENARIO.read_bytes(), SCENARIO.parent, Options())
    watched = Watched()
    run = run_world(setup_of(loaded, 0), Hooks(observers=[watched]))

    assert (run.problems, run.warnings) == ((), ())
    after = [2, 11, 16, 20, 38, 41, 50, 58]
    assert [1, 2, 3, 3, 2, 2, 2, 1] == [watched.nodes_at(minute * MINUTE - 1) for minute in after]
    types = [each.instance_type for each in watched.events("launched")]
    assert ["c4.xlarge", "t3a.2xlarge", "c4.xlarge"] == types

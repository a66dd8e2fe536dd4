"""Whatever the cluster: the story of a node agrees with the plan it is told about."""

import json
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.builders import FACTS_F, NOW
from helpers.disruption import catalogue_of
from karpenter.disruption.commands import SINGLE, Command
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.projected_state import ProjectedState
from karpenter.report.node_explanation import explain_node, node_document
from karpenter.report.nodepool_explanation import explain_pool, pool_document
from properties.disruption.test_disruption_plan_properties import Scene
from properties.disruption.test_disruption_plan_properties import scene as made


def view_after(scene: Scene, begun: Sequence[Command]) -> DisruptionContext:
    """The cluster once commands have begun."""
    after = ProjectedState(scene.snapshot, FACTS_F, catalogue_of({"types": scene.types}))
    for command in begun:
        after.begin(command, until=NOW + scene.settings.nomination)
    return DisruptionContext(
        after.snapshot,
        after.types,
        FACTS_F,
        scene.settings,
        now=NOW,
        in_progress=after.in_progress,
    )


SCENES = {"seed": st.integers(0, 2**32), "nodes": st.integers(1, 8)}


@given(**SCENES)
@settings(deadline=None)
def test_what_holds_a_node_is_what_the_plan_says_holds_it(seed: int, nodes: int) -> None:
    scene = made(seed, nodes)
    plan = scene.plan()
    stays = {entry.node: entry for entry in plan.blocked}

    for machine in scene.nodes:
        told = explain_node(machine.name, plan, lambda begun: view_after(scene, begun))

        assert (machine.name in stays) == (told.command is None)
        holding = [each for each in told.filters if not each.passed]
        if told.command is None:
            assert [stays[machine.name].why.value] == [each.reason for each in holding]
            assert holding == [told.filters[-1]]
        else:
            assert [] == holding


@given(**SCENES)
@settings(deadline=None)
def test_a_node_that_goes_alone_could_be_moved_as_its_story_says(seed: int, nodes: int) -> None:
    scene = made(seed, nodes)
    plan = scene.plan()

    for command in plan.commands:
        if command.method != SINGLE:
            continue
        (name,) = command.names
        told = explain_node(name, plan, lambda begun: view_after(scene, begun))

        assert told.move is not None
        assert (command.decision, "") == (told.move.decision, told.move.refusal)
        assert {claim.name for claim in command.replacements} == {
            claim.name for claim in told.move.replacements
        }


@given(**SCENES)
@settings(deadline=None)
def test_every_story_can_be_written_down(seed: int, nodes: int) -> None:
    scene = made(seed, nodes)
    plan = scene.plan()
    view = view_after(scene, ())

    stories = [
        explain_node(machine.name, plan, lambda begun: view_after(scene, begun))
        for machine in scene.nodes
    ]
    written = [*map(node_document, stories)]
    written += [pool_document(explain_pool(name, view)) for name in view.snapshot.node_pools]

    assert written == json.loads(json.dumps(written, allow_nan=False))

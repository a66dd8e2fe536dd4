"""The process that plans: told of objects one by one, it says what a plan from all of them says."""

from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest

from helpers.dashboard_worlds import DISRUPTION, NOW, PLAN, world_of
from karpenter.api.codec import decode, encode
from karpenter.api.meta import Resource
from karpenter.api.node_classes import node_class_model
from karpenter.dashboard.answers import messages
from karpenter.dashboard.answers.asking import Asking
from karpenter.dashboard.answers.messages import (
    EXPLAIN,
    SAVINGS,
    WHAT_IF,
    Answered,
    Ask,
    Begin,
    Changes,
    Message,
    Refused,
    Reply,
    SomeTypes,
    Supplied,
    change_of,
    decode_reply,
    encode_reply,
    framed,
    length_of,
    message_of,
    object_of,
    read_frame,
)
from karpenter.dashboard.answers.worker import Planner, serve
from karpenter.dashboard.answers.world import Terms, World
from karpenter.dashboard.contract import WhatIfRequest


def told(planner: Planner, message: Message) -> Reply | None:
    """A message and its reply, as they go through a pipe."""
    content = framed(message)
    assert len(content) == 8 + length_of(content[:8])
    reply = planner.take(message_of(content[8:]))
    return decode_reply(encode_reply(reply)) if reply is not None else None


def feed(planner: Planner, world: World) -> None:
    """Tell of a whole cluster."""
    told(planner, Begin(world.terms))
    for each in world.objects:
        told(planner, Changes((change_of(None, each),)))
    supply = world.supply
    (types, *_) = supply.catalogues()
    for start in range(0, len(types), 50):
        told(planner, SomeTypes(0, types[start : start + 50]))
    told(
        planner,
        Supplied(
            supply.facts,
            dict.fromkeys(supply.pools, 0),
            dict(supply.references),
            1,
            supply.repair_policies,
        ),
    )


def asked(planner: Planner, verb: str, *names: str, **more: Any) -> dict[str, Any]:
    """The document that answers a question."""
    reply = told(planner, Ask(NOW, more.pop("version", 1), 60.0, verb, names, **more))
    assert isinstance(reply, Answered), reply
    return reply.document


def clusters() -> Iterator[tuple[str, World]]:
    """Clusters of files, and the same as if they ran."""
    for name, files in (("plan", PLAN), ("disruption", DISRUPTION)):
        world = world_of(*files)
        yield f"{name}-files", world
        yield f"{name}-live", World(world.objects, world.supply, Terms(), NOW)


@pytest.mark.parametrize("kind", ["plan-files", "plan-live", "disruption-files", "disruption-live"])
def test_a_planner_that_was_told_of_everything_plans_as_for_the_whole(kind: str) -> None:
    world = dict(clusters())[kind]
    planner = Planner()
    feed(planner, world)
    expected = Asking(world, None)

    assert expected.plan().document == asked(planner, messages.PLAN)
    assert expected.savings().document == asked(planner, SAVINGS)
    name = expected.plans.asked.snapshot.nodes[0].name
    assert expected.explain("node", "", name).document == asked(planner, EXPLAIN, "node", "", name)
    request = WhatIfRequest(drain=[name])
    assert expected.what_if(request).document == asked(planner, WHAT_IF, request=request)


def test_a_change_counts_for_the_next_plan() -> None:
    world = dict(clusters())["disruption-live"]
    planner = Planner()
    feed(planner, world)
    before = asked(planner, messages.PLAN)
    gone = [each for each in world.objects if each.kind == "PodDisruptionBudget"]
    left = [each for each in world.objects if each not in gone]

    told(planner, Changes(tuple(change_of(each, None) for each in gone)))
    after = asked(planner, messages.PLAN, version=2)

    assert before != after
    assert Asking(world.with_objects(left), None).plan().document == after


def test_plans_are_kept_while_nothing_changes_but_not_for_long() -> None:
    now = 0.0
    planner = Planner(lambda: now)
    feed(planner, dict(clusters())["disruption-live"])

    asked(planner, messages.PLAN)
    first = planner._asking
    asked(planner, messages.PLAN)
    assert planner._asking is first
    asked(planner, messages.PLAN, version=2)
    second = planner._asking
    assert second is not first
    now = 11.0
    asked(planner, messages.PLAN, version=2)
    assert planner._asking is not second


def test_a_mistake_is_a_reply() -> None:
    planner = Planner()
    feed(planner, dict(clusters())["disruption-live"])

    unknown = told(planner, Ask(NOW, 1, 60.0, EXPLAIN, ("node", "", "x")))
    wrong = told(planner, Ask(NOW, 1, 60.0, WHAT_IF, request=WhatIfRequest(apply="a: [b\nc: d")))

    assert isinstance(unknown, Refused)
    assert "UnknownObjectError" == unknown.error
    assert isinstance(wrong, Refused)
    assert ("BadQuestionError", 1) == (wrong.error, wrong.problems[0]["line"])


def test_objects_come_through_the_pipe_as_they_were() -> None:
    for world in dict(clusters()).values():
        for each in world.objects:
            assert each == object_of(change_of(None, each))
            assert object_of(change_of(each, None)) is None


def test_a_node_class_of_an_unknown_provider_comes_through() -> None:
    model = node_class_model("machines.example.com/v1", "MachineClass")
    made: Resource = decode(encode(world_of(*PLAN).objects[0]))
    found = object_of(change_of(None, model(metadata=made.metadata)))

    assert model(metadata=made.metadata) == found


def test_a_question_that_fails_does_not_end_the_process() -> None:
    asked_too_early = Ask(NOW, 1, 60.0, messages.PLAN)
    source, sink = BytesIO(framed(asked_too_early) * 2), BytesIO()

    serve(source, sink)

    replies = BytesIO(sink.getvalue())
    for _ in range(2):
        reply = decode_reply(read_frame(replies) or b"")
        assert isinstance(reply, Refused)
        assert "NoAnswerError" == reply.error
        assert reply.text.startswith("planning has failed: ")


def test_a_process_ends_with_its_input() -> None:
    whole = framed(Ask(NOW, 1, 60.0, messages.PLAN))
    for end in (0, 4, len(whole) - 1):
        sink = BytesIO()
        serve(BytesIO(whole[:end]), sink)
        assert b"" == sink.getvalue()

"""Each pod of the eviction queue is asked at its own pace, and never another in its place."""

from dataclasses import replace

import pytest

from helpers.clusters import in_virtual_time
from karpenter.api.pods import Pod
from karpenter.controllers.context import Context
from karpenter.controllers.termination.eviction_queue import EvictionKey, EvictionQueue
from karpenter.controllers.termination.eviction_requests import EvictionRequest
from karpenter.kube.transport import Response
from karpenter.runtime import Runnable
from unit.controllers.termination.termination_bench import Leaving, leaving, refusal
from unit.controllers.termination.termination_objects import budget, claim, node, pod


class Alone:
    """Makes the queue alone, and remembers it."""

    def __init__(self) -> None:
        self.queue: EvictionQueue | None = None

    def __call__(self, world: Context) -> list[Runnable]:
        self.queue = EvictionQueue(world)
        return [self.queue]

    def add(self, run: Leaving, *names: str, order: EvictionRequest | None = None) -> list[Pod]:
        """Put pods into the queue."""
        assert self.queue is not None
        pods = [run.world.mirror(Pod).get(name, "default") for name in names]
        found = [each for each in pods if each is not None]
        self.queue.add(found, order or EvictionRequest())
        return found

    def holds(self, given: Pod) -> bool:
        assert self.queue is not None
        return given in self.queue


@pytest.mark.case("DIS-78")
@pytest.mark.row("S2-13")
@in_virtual_time
async def test_a_pod_that_its_budget_holds_is_asked_again_ever_more_slowly() -> None:
    alone = Alone()
    async with leaving(node(), pod(), budget(), make=alone) as run:
        alone.add(run, "a")
        counts = []
        for _ in range(5):
            await run.pass_time(10)
            counts.append(len(run.evictions))

        # 0.1 + 0.2 + ... + 6.4 s, then every 10 s
        assert [7, 8, 9, 10, 11] == counts
        assert 11 == run.counted("pods_eviction_requests_total", code="429")
        assert ("Node", "FailedDraining") in run.reasons
        assert ("Pod", "Evicted") not in run.reasons


@pytest.mark.case("DIS-78")
@in_virtual_time
async def test_a_pod_goes_soon_after_its_budget_allows() -> None:
    alone = Alone()
    async with leaving(node(), pod(), budget(), make=alone) as run:
        (held,) = alone.add(run, "a")
        await run.pass_time(60)
        allowed = {"status": {"disruptionsAllowed": 1}}
        await run.change(
            "policy/v1",
            "PodDisruptionBudget",
            "pdb",
            allowed,
            namespace="default",
            subresource="status",
        )
        await run.pass_time(10)

        assert 1 == run.counted("pods_eviction_requests_total", code="200")
        assert ("Pod", "Evicted") in run.reasons
        assert not alone.holds(held)


@pytest.mark.case("DIS-78")
@in_virtual_time
async def test_a_server_may_ask_for_patience_but_not_for_ever() -> None:
    alone = Alone()
    patience = replace(refusal(429, reason="TooManyRequests"), headers={"retry-after": "3600"})
    async with leaving(node(), pod(), answers={"/eviction": [patience]}, make=alone) as run:
        alone.add(run, "a")
        await run.pass_time(9.5)
        assert ["a"] == run.evictions

        await run.pass_time(1)

        assert ["a", "a"] == run.evictions


@pytest.mark.case("DIS-79")
@in_virtual_time
async def test_a_pod_of_two_budgets_is_asked_again() -> None:
    alone = Alone()
    budgets = [budget("one", allowed=1), budget("two", allowed=1)]
    async with leaving(node(), pod(), *budgets, make=alone) as run:
        (held,) = alone.add(run, "a")
        await run.pass_time(1)

        assert 4 == run.counted("pods_eviction_requests_total", code="500")
        assert ("Node", "FailedDraining") in run.reasons
        assert alone.holds(held)
        assert [] == run.errors


@pytest.mark.case("DIS-80")
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        pytest.param(refusal(404, reason="NotFound"), "404", id="the pod is gone"),
        pytest.param(refusal(409, reason="Conflict"), "409", id="the pod is another"),
    ],
)
def test_an_eviction_that_has_no_object_is_dropped(answer: Response, code: str) -> None:
    @in_virtual_time
    async def run_it() -> None:
        alone = Alone()
        async with leaving(node(), pod(), answers={"/eviction": [answer]}, make=alone) as run:
            (dropped,) = alone.add(run, "a")
            await run.pass_time(60)

            assert not alone.holds(dropped)
            assert ["a"] == run.evictions
            assert [] == run.reasons
            assert 1 == run.counted("pods_eviction_requests_total", code=code)

    run_it()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refusal(404, reason="NotFound"), id="the pod is gone"),
        pytest.param(refusal(409, reason="Conflict"), id="the pod is another"),
    ],
)
def test_a_deletion_that_has_no_object_is_dropped(answer: Response) -> None:
    @in_virtual_time
    async def run_it() -> None:
        alone = Alone()
        async with leaving(node(), pod(), answers={"/pods/a": [answer]}, make=alone) as run:
            (dropped,) = alone.add(run, "a", order=EvictionRequest(run.at(-1)))
            await run.pass_time(60)

            assert not alone.holds(dropped)
            assert [("a", 1)] == run.deletions
            assert [] == run.reasons
            assert 0 == run.counted("pods_drained_total", reason="")

    run_it()


@pytest.mark.case("DIS-81")
@in_virtual_time
async def test_a_pod_that_took_the_place_of_another_is_left_alone() -> None:
    alone = Alone()
    async with leaving(node(), pod(), budget(), make=alone) as run:
        alone.add(run, "a")
        await run.pass_time(5)
        await run.delete("Pod", "a", grace_period=0)
        await run.bench.client.delete("policy/v1", "PodDisruptionBudget", "default", "pdb")
        await run.put(pod())
        asked = len(run.evictions)
        await run.pass_time(60)

        assert asked == len(run.evictions)
        assert run.has_pod("a")


@in_virtual_time
async def test_a_pod_that_is_no_longer_in_the_queue_is_left_alone() -> None:
    alone = Alone()
    async with leaving(node(), pod(), make=alone) as run:
        found = run.world.mirror(Pod).get("a", "default")
        assert found is not None
        assert alone.queue is not None

        key = EvictionKey("default", "a", found.metadata.uid)
        assert await alone.queue.reconcile(key) is None

        assert [] == run.evictions


@pytest.mark.case("DIS-81")
@in_virtual_time
async def test_the_server_is_told_which_pod_is_meant() -> None:
    alone = Alone()
    async with leaving(node(), pod(), make=alone) as run:
        (meant,) = alone.add(run, "a")
        # Replaced behind the queue's back: its mirror has not heard of it yet
        await run.delete("Pod", "a", grace_period=0)
        await run.bench.client.create(pod())
        await run.pass_time(60)

        assert run.has_pod("a")
        assert not alone.holds(meant)


@pytest.mark.case("DIS-89")
@in_virtual_time
async def test_a_deadline_that_comes_later_is_heeded_at_once() -> None:
    alone = Alone()
    async with leaving(node(), pod(held="true", grace=60), make=alone) as run:
        alone.add(run, "a")
        await run.pass_time(60)
        alone.add(run, "a", order=EvictionRequest(run.at(30)))
        await run.pass_time(0.1)

        assert [("a", 30)] == run.deletions


@pytest.mark.case("DIS-90")
@in_virtual_time
async def test_a_looser_deadline_does_not_replace_a_tight_one() -> None:
    alone = Alone()
    async with leaving(node(), pod(held="true", grace=60), make=alone) as run:
        alone.add(run, "a", order=EvictionRequest(run.at(120)))
        alone.add(run, "a", order=EvictionRequest(run.at(1200)))
        alone.add(run, "a", order=EvictionRequest())
        await run.pass_time(61)

        assert [("a", 59)] == run.deletions


@pytest.mark.case("V15-D29")
@in_virtual_time
async def test_after_a_time_out_pods_are_out_of_the_queue_and_alive() -> None:
    alone = Alone()
    pods = [pod("held", held="true"), pod("guarded", app="db", grace=600)]
    async with leaving(node(), *pods, budget(app="db"), make=alone) as run:
        both = alone.add(run, "held", "guarded", order=EvictionRequest(run.at(60), is_timeout=True))
        await run.pass_time(59)
        assert [True, True] == [alone.holds(each) for each in both]

        await run.pass_time(2)

        assert [False, False] == [alone.holds(each) for each in both]
        assert [] == run.deletions
        assert [None, None] == [
            found.metadata.deletion_timestamp for found in run.world.mirror(Pod).list("default")
        ]


@pytest.mark.case("V15-D42")
@in_virtual_time
async def test_a_pod_of_a_node_that_restarts_and_is_then_removed_is_deleted() -> None:
    alone = Alone()
    async with leaving(node(), pod(held="true", grace=60), make=alone) as run:
        alone.add(run, "a", order=EvictionRequest(run.at(600), is_timeout=True))
        await run.pass_time(1)
        alone.add(run, "a", order=EvictionRequest(run.at(120)))
        alone.add(run, "a", order=EvictionRequest(run.at(5), is_timeout=True))
        await run.pass_time(61)

        assert ["a"] == [name for name, _ in run.deletions]


@in_virtual_time
async def test_a_refusal_for_a_pod_whose_node_is_gone_is_no_news() -> None:
    alone = Alone()
    async with leaving(pod(on="lost"), budget(), make=alone) as run:
        (orphan,) = alone.add(run, "a")
        await run.pass_time(10)

        assert not alone.holds(orphan)
        assert ["a"] == run.evictions
        assert [] == run.reasons


@pytest.mark.parametrize(
    ("deadline", "told"),
    [
        pytest.param(None, ("Pod", "Evicted"), id="an eviction for no known reason"),
        pytest.param(-1, ("Pod", "Disrupted"), id="a deletion for no known reason"),
    ],
)
def test_a_pod_whose_node_is_gone_goes_all_the_same(
    deadline: float | None, told: tuple[str, str]
) -> None:
    @in_virtual_time
    async def run_it() -> None:
        alone = Alone()
        async with leaving(pod(on="lost"), make=alone) as run:
            order = EvictionRequest(run.at(deadline)) if deadline is not None else EvictionRequest()
            alone.add(run, "a", order=order)
            await run.pass_time(1)

            assert [told] == run.reasons
            assert 1 == run.counted("pods_drained_total", reason="")

    run_it()


@pytest.mark.case("DIS-78")
@in_virtual_time
async def test_a_pod_that_changes_is_not_asked_again_for_that() -> None:
    alone = Alone()
    async with leaving(node(), pod(), budget(), make=alone) as run:
        alone.add(run, "a")
        await run.pass_time(20)
        asked = len(run.evictions)
        for number in range(5):
            labels = {"metadata": {"labels": {"touched": str(number)}}}
            await run.change("v1", "Pod", "a", labels, namespace="default")

        assert asked == len(run.evictions)


@in_virtual_time
async def test_pods_that_protect_themselves_do_not_hold_others() -> None:
    alone = Alone()
    held = [pod(f"held-{number}", held="true") for number in range(150)]
    async with leaving(node(), *held, pod("free"), make=alone) as run:
        alone.add(run, *(each["metadata"]["name"] for each in held), "free")
        await run.pass_time(0.1)

        assert ["free"] == run.evictions


@in_virtual_time
async def test_pods_that_are_held_do_not_hold_others() -> None:
    alone = Alone()
    held = [pod(f"held-{number}") for number in range(150)]
    async with leaving(node(), *held, pod("free", app="other"), budget(), make=alone) as run:
        alone.add(run, *(each["metadata"]["name"] for each in held), "free")
        await run.pass_time(2)

        assert "free" in run.evictions
        assert ("Pod", "Evicted") in run.reasons


@in_virtual_time
async def test_no_more_than_a_hundred_evictions_are_asked_for_in_a_second() -> None:
    alone = Alone()
    pods = [pod(f"p-{number}") for number in range(400)]
    async with leaving(node(), *pods, make=alone) as run:
        alone.add(run, *(each["metadata"]["name"] for each in pods))
        asked = []
        for _ in range(4):
            await run.pass_time(1)
            asked.append(len(run.evictions))

        assert all(count <= 100 * (second + 2) for second, count in enumerate(asked))
        assert 400 == asked[-1]


@in_virtual_time
async def test_a_pod_is_not_asked_twice_while_its_going_has_not_shown_yet() -> None:
    async with leaving(claim(), node(), pod()) as run:
        await run.delete("NodeClaim")
        await run.pass_time(25)

        assert ["a"] == run.evictions
        assert 1 == run.counted("pods_drained_total", reason="Forceful Termination")


@in_virtual_time
async def test_an_eviction_that_had_no_effect_is_asked_for_again() -> None:
    alone = Alone()
    accepted = Response(201, b'{"kind":"Status","apiVersion":"v1","status":"Success"}')
    async with leaving(node(), pod(), answers={"/eviction": [accepted]}, make=alone) as run:
        alone.add(run, "a")
        await run.pass_time(11)

        assert ["a", "a"] == run.evictions


@in_virtual_time
async def test_an_error_of_the_server_is_counted_and_the_pod_is_kept() -> None:
    alone = Alone()
    async with leaving(node(), pod(), answers={"/eviction": [refusal(500)] * 3}, make=alone) as run:
        alone.add(run, "a")
        await run.pass_time(2)

        assert ["a"] * 4 == run.evictions
        assert [("Pod", "Evicted")] == run.reasons  # no budget is blamed
        assert 3 == run.counted("pods_eviction_requests_total", code="500")
        assert 1 == run.counted("pods_eviction_requests_total", code="200")


@in_virtual_time
async def test_an_annotation_that_protects_nothing_is_told() -> None:
    alone = Alone()
    async with leaving(node(), pod(held="yes"), make=alone) as run:
        alone.add(run, "a")
        await run.pass_time(1)

        assert ("Pod", "InvalidDoNotDisruptAnnotation") in run.reasons
        assert ["a"] == run.evictions

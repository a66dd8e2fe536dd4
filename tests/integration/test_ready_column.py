"""READY is shown a moment after an object is created, however long its launch or AWS takes.

What stays blank belongs to another provider, or no controller runs.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final
from unittest.mock import patch

import pytest

from helpers.autoscaler import Autoscaler, autoscaler, deployment, kwok_class, kwok_pool
from helpers.aws_sandbox import aws_sandbox, ec2_pool
from helpers.clusters import in_virtual_time
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.cloud.provider import InsufficientCapacityError
from karpenter_sandbox.conditions import find_condition
from karpenter_sandbox.store.store import Event

OURS: Final = {"nodepools", "nodeclaims", "ec2nodeclasses", "kwoknodeclasses"}
A_MOMENT: Final = 1.0  # of virtual time
STAGES: Final = ("Launched", "Registered", "Initialized", "Ready")
NOWHERE: Final = {"group": "example.com", "kind": "Other", "name": "default"}


class Column:
    """What READY has shown, object by object."""

    def __init__(self, run: Autoscaler) -> None:
        self._run = run
        self.blank: list[str] = []  # objects whose status was written without READY
        self.seconds: dict[str, float] = {}  # object -> seconds until READY was set
        self.shown: dict[str, list[str]] = {}
        self._since: dict[str, float] = {}
        run.cluster.store.on_change(self._note)
        for group, plural in (
            ("karpenter.sh", "nodepools"),
            ("karpenter.k8s.aws", "ec2nodeclasses"),
        ):
            for obj in run.objects(group, plural):
                self._since[f"{plural}/{obj['metadata']['name']}"] = run.clock.monotonic()

    def _note(self, change: Event) -> None:
        key = change.stored.key
        if key.resource not in OURS:
            return
        name, now = f"{key.resource}/{key.name}", self._run.clock.monotonic()
        since = self._since.setdefault(name, now)
        if change.type == "DELETED":
            if name not in self.seconds and now - since <= A_MOMENT:
                del self._since[name]  # deleted before the deadline: it does not count
            return
        ready = find_condition(change.obj, "Ready")
        if ready is None:
            if change.obj.get("status"):
                self.blank.append(f"{name}: {change.obj['status']}")
            return
        self.seconds.setdefault(name, now - since)
        shown = self.shown.setdefault(name, [])
        if shown[-1:] != [ready["status"]]:
            shown.append(ready["status"])

    def check(self) -> None:
        assert [] == self.blank
        assert self._since.keys() == self.seconds.keys()
        assert {} == {name: late for name, late in self.seconds.items() if late > A_MOMENT}


def faults(run: Autoscaler) -> Any:
    assert isinstance(run.cloud, KwokProvider)
    return run.cloud.faults


@in_virtual_time
async def test_of_objects_that_are_created_broken_or_sold_out() -> None:
    async with autoscaler() as run:
        column = Column(run)
        gone = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "gone"}
        await run.apply(
            kwok_pool("fine"),
            kwok_pool("lost", template={"nodeClassRef": gone}),
            kwok_class("later"),
            deployment("web", 2),
        )
        await run.until(lambda: len(run.running) == 2)
        mark = {"metadata": {"annotations": {"karpenter.kwok.sh/sold-out": "*/*/*"}}}
        where = ("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", None, "default")
        await run.client.patch("merge", *where, mark)
        await run.apply(deployment("more", 1, cpu="100"))
        await run.pass_time(60)

        column.check()
        assert "False" == column.shown["nodepools/lost"][-1]


def claims(run: Autoscaler) -> list[Any]:
    return list(run.objects("karpenter.sh", "nodeclaims"))


def names(run: Autoscaler) -> list[str]:
    return [f"nodeclaims/{claim['metadata']['name']}" for claim in claims(run)]


def has_only_others(run: Autoscaler, gone: list[str]) -> bool:
    """Whether there are claims, and none of these."""
    return bool(names(run)) and not set(names(run)) & set(gone)


@asynccontextmanager
async def slowly_launched() -> AsyncIterator[tuple[Autoscaler, Column]]:
    """Two pods that wait for a claim whose launch takes 40 seconds."""
    async with autoscaler(kwok_pool()) as run:
        column = Column(run)
        faults(run).launch_seconds = 40.0
        await run.apply(deployment("web", 2))
        await run.until(lambda: bool(claims(run)))
        yield run, column


@in_virtual_time
async def test_of_a_claim_whose_launch_takes_long() -> None:
    async with slowly_launched() as (run, column):
        await run.pass_time(20)
        (claim,) = claims(run)
        told = {each["type"]: each["status"] for each in claim["status"].pop("conditions")}
        assert dict.fromkeys(STAGES, "Unknown") == told
        assert {} == claim["status"]
        await run.until(lambda: len(run.running) == 2)

        column.check()
        assert [["Unknown", "True"]] == [column.shown[each] for each in names(run)]


@in_virtual_time
async def test_of_a_launch_that_takes_long_and_fails() -> None:
    async with autoscaler(kwok_pool()) as run:
        column = Column(run)
        faults(run).launch_seconds = 40.0
        faults(run).fail_launches(lambda: InsufficientCapacityError("none left"))
        await run.apply(deployment("web", 2))
        await run.until(lambda: len(run.running) == 2)

        column.check()
        assert 2 == len([each for each in column.shown if each.startswith("nodeclaims/")])


@in_virtual_time
async def test_of_a_claim_that_is_deleted_while_it_is_launched() -> None:
    async with slowly_launched() as (run, column):
        # before the first status is written, and after
        for seconds in (0.1, 20.0):
            await run.pass_time(seconds)
            deleted = names(run)
            for each in deleted:
                name = each.removeprefix("nodeclaims/")
                await run.client.delete("karpenter.sh/v1", "NodeClaim", None, name)
            await run.until(partial(has_only_others, run, deleted))
        await run.until(lambda: len(run.running) == 2)

        assert [] == column.blank
        assert 1 == len(run.objects("", "nodes"))


@in_virtual_time
async def test_a_launch_of_no_time_is_written_once() -> None:
    async with autoscaler(kwok_pool()) as run:
        column = Column(run)
        await run.apply(deployment("web", 2))
        await run.until(lambda: len(run.running) == 2)

        column.check()
        assert [0.0] == [column.seconds[each] for each in names(run)]


@in_virtual_time
async def test_a_pool_of_another_provider_is_left_without() -> None:
    async with autoscaler(kwok_pool("theirs", template={"nodeClassRef": NOWHERE})) as run:
        await run.pass_time(120)

        (pool,) = run.objects("karpenter.sh", "nodepools")
        assert not pool.get("status")


@contextmanager
def unforeseen(provider: Any) -> Iterator[None]:
    """Let the discovery of subnets fail with an unexpected error."""
    with patch.object(provider.parts.subnets, "list", side_effect=RuntimeError("odd")):
        yield


@pytest.mark.parametrize("refused", ["DescribeSubnets", "DescribeImages", "RunInstances"])
@in_virtual_time
async def test_of_a_node_class_that_aws_does_not_answer_for(refused: str) -> None:
    async with aws_sandbox(ec2_pool(), starts=False) as box:
        column = Column(box.run)
        box.account.faults.fail(refused, "UnauthorizedOperation", times=10_000, status=403)
        box.run.start()
        await box.run.apply(deployment("web", 1))
        await box.run.pass_time(120)

        column.check()
        assert "True" not in column.shown["ec2nodeclasses/default"]


@in_virtual_time
async def test_of_a_node_class_that_cannot_be_looked_after_at_all() -> None:
    async with aws_sandbox(ec2_pool(), starts=False) as box:
        box.run.expects_failures = True
        column = Column(box.run)
        box.run.start()
        with unforeseen(box.provider):
            await box.run.pass_time(60)

            column.check()
            assert ["Unknown"] == column.shown["ec2nodeclasses/default"]
        await box.run.until(lambda: column.shown["ec2nodeclasses/default"][-1] == "True")


@in_virtual_time
async def test_of_claims_on_aws() -> None:
    async with aws_sandbox(ec2_pool(), starts=False) as box:
        column = Column(box.run)
        box.run.start()
        await box.run.apply(deployment("web", 2))
        await box.run.until(lambda: len(box.run.running) == 2)

        column.check()
        assert any(name.startswith("nodeclaims/") for name in column.shown)

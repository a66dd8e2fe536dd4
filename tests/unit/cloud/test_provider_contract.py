"""The contract catches providers that break their promises, one kind of breach at a time."""

from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.clock import run_virtual
from karpenter.cloud.contract import Bed, ProviderContract, type_problems
from karpenter.cloud.kwok.catalogue import built_in
from karpenter.cloud.kwok.machine import node_name_of
from karpenter.cloud.kwok.provider import REPAIR_POLICIES, KwokProvider
from karpenter.cloud.provider import (
    CloudError,
    Instance,
    InstanceNotFoundError,
    InsufficientCapacityError,
    NodeClassNotReadyError,
    RepairPolicy,
)
from karpenter.cloud.types import InstanceType, ProviderFacts
from karpenter.model import labels
from unit.cloud.kwok.kwok_bed import KwokBed
from unit.cloud.kwok.kwok_cloud import kwok_cloud


class Forgetful(KwokProvider):
    """Launches a new instance whenever it is asked."""

    launches = 0

    async def create(self, claim: NodeClaim) -> Instance:
        self.launches += 1
        uid = f"{claim.metadata.uid}-{self.launches}"
        metadata = msgspec.structs.replace(claim.metadata, uid=uid)
        return await super().create(msgspec.structs.replace(claim, metadata=metadata))


class NeverGone(KwokProvider):
    async def delete(self, claim: NodeClaim) -> None:
        return


class GoneInName(KwokProvider):
    async def delete(self, claim: NodeClaim) -> None:
        raise InstanceNotFoundError(claim.metadata.name)


class DeletesAll(KwokProvider):
    async def delete(self, claim: NodeClaim) -> None:
        for name in [name for name in self._arrivals.labels() if name != node_name_of(claim)]:
            self._arrivals.call_off(name)
        for node in await self.list():
            found = msgspec.structs.replace(claim.status, provider_id=node.provider_id)
            await self._delete(msgspec.structs.replace(claim, status=found))
        raise InstanceNotFoundError(claim.metadata.name)

    async def _delete(self, claim: NodeClaim) -> None:
        with pytest.raises(InstanceNotFoundError):
            await super().delete(claim)


class Timeless(KwokProvider):
    async def list(self) -> Sequence[Instance]:
        return [replace(instance, created_at=None) for instance in await super().list()]


class FindsAnything(KwokProvider):
    async def get(self, provider_id: str) -> Instance:
        return (await self.list())[0]


class ListsNothing(KwokProvider):
    async def list(self) -> Sequence[Instance]:
        return []


class Unlabelled(KwokProvider):
    async def create(self, claim: NodeClaim) -> Instance:
        made = await super().create(claim)
        return replace(made, labels={**made.labels, labels.ARCH: "sparc"})


class Cramped(KwokProvider):
    async def create(self, claim: NodeClaim) -> Instance:
        return replace(await super().create(claim), allocatable={"cpu": "1m"})


class Vague(KwokProvider):
    async def create(self, claim: NodeClaim) -> Instance:
        try:
            return await super().create(claim)
        except (InsufficientCapacityError, NodeClassNotReadyError) as error:
            raise CloudError("something went wrong") from error


class TwinTypes(KwokProvider):
    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        return (await super().instance_types(pool)) * 2


class Priceless(KwokProvider):
    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        first, *others = await super().instance_types(pool)
        offering = replace(first.offerings[0], price=float("nan"))
        return (first.with_offerings((offering,)), *others)


class Nameless(KwokProvider):
    @property
    def facts(self) -> ProviderFacts:
        return replace(super().facts, node_classes=())


class Drifting(KwokProvider):
    async def drift_reason(self, claim: NodeClaim) -> str:
        return "always"


class RestartsOnce(KwokProvider):
    restarts = 0

    async def reboot(self, claim: NodeClaim, operation: str) -> None:
        self.restarts += 1
        if self.restarts > 1:
            raise CloudError("restarted already")


class Unrepairable(KwokProvider):
    @property
    def repair_policies(self) -> Sequence[RepairPolicy]:
        return REPAIR_POLICIES[1:]


class Contract(ProviderContract):
    def __init__(self, kind: type[KwokProvider]) -> None:
        self._kind = kind

    @asynccontextmanager
    async def bed(self) -> AsyncIterator[Bed]:
        async with kwok_cloud(is_leading=False) as cloud:
            cloud.provider = self._kind(cloud.kube, cloud.clock, cloud.types)
            cloud.start()
            yield KwokBed(cloud)

    def run(self, test: Coroutine[Any, Any, None]) -> None:
        run_virtual(test)


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        pytest.param(
            Forgetful,
            {
                "the_same_claim_again_gets_the_same_instance",
                "the_same_claim_after_a_crash_gets_the_same_instance",
                "a_launch_that_is_cancelled_can_be_repeated",
            },
            id="a second launch makes a second instance",
        ),
        pytest.param(
            NeverGone,
            {
                "an_instance_is_deleted_until_it_is_gone",
                "a_claim_deleted_right_after_its_launch_leaves_nothing",
                "deleting_one_instance_leaves_the_others",
                "a_claim_that_was_never_launched_has_nothing_to_delete",
            },
            id="delete never says that it is done",
        ),
        pytest.param(
            GoneInName,
            {
                "an_instance_is_deleted_until_it_is_gone",
                "a_claim_deleted_right_after_its_launch_leaves_nothing",
                "deleting_one_instance_leaves_the_others",
            },
            id="delete says that it is done and does nothing",
        ),
        pytest.param(
            DeletesAll,
            {"deleting_one_instance_leaves_the_others"},
            id="delete takes others along",
        ),
        pytest.param(
            Timeless,
            {
                "a_list_says_when_instances_were_made",
                "get_and_list_agree_about_a_launched_instance",
            },
            id="a list without times",
        ),
        pytest.param(
            FindsAnything,
            {"an_instance_that_never_was_is_not_found"},
            id="an instance nobody made is found",
        ),
        pytest.param(
            ListsNothing,
            {
                "a_list_says_when_instances_were_made",
                "get_and_list_agree_about_a_launched_instance",
            },
            id="a list without instances",
        ),
        pytest.param(
            Unlabelled,
            {"an_instance_is_what_its_type_says"},
            id="labels that are not those of the type",
        ),
        pytest.param(
            Cramped, {"an_instance_holds_what_its_claim_asks_for"}, id="too small an instance"
        ),
        pytest.param(
            Vague,
            {
                "a_cloud_that_is_sold_out_says_so",
                "a_node_class_that_is_not_ready_launches_nothing",
            },
            id="errors that say nothing",
        ),
        pytest.param(
            TwinTypes,
            {"instance_types_are_well_formed", "an_instance_is_what_its_type_says"},
            id="two types of the same name",
        ),
        pytest.param(Priceless, {"instance_types_are_well_formed"}, id="a price that is none"),
        pytest.param(Nameless, {"the_provider_says_who_it_is"}, id="node classes nobody serves"),
        pytest.param(Drifting, {"a_fresh_instance_has_not_drifted"}, id="a fresh instance drifts"),
        pytest.param(
            RestartsOnce, {"a_restart_may_be_asked_for_twice"}, id="a restart cannot be repeated"
        ),
        pytest.param(
            Unrepairable, {"repair_policies_are_valid"}, id="repair policies without a fallback"
        ),
    ],
)
def test_breach(kind: type[KwokProvider], broken: set[str]) -> None:
    for promise in sorted(broken):
        with pytest.raises((AssertionError, CloudError)):
            getattr(Contract(kind), f"test_{promise}")()


@pytest.mark.parametrize(
    ("available", "problems"),
    [
        pytest.param(True, 1, id="an offering that can be had must have a price"),
        pytest.param(False, 0, id="one that cannot be had need not"),
    ],
)
def test_what_cannot_be_had_is_not_judged(available: bool, problems: int) -> None:
    first = built_in()[0]
    offering = replace(first.offerings[0], price=float("nan"), available=available)

    assert problems == len(type_problems(first.with_offerings((offering,))))

"""The contract of ``CloudProvider``, as tests that any provider can run.

Derive from ``ProviderContract``, say in ``bed`` how your cloud is set up, and let a test runner
find the class::

    class TestMyCloud(ProviderContract):
        @asynccontextmanager
        async def bed(self) -> AsyncIterator[Bed]:
            yield MyBed(...)

The tests are plain methods, so any runner will do. A promise that cannot be tried, because the bed
says so with ``unittest.SkipTest``, is reported as skipped.
"""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import msgspec

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.cloud.provider import (
    CloudProvider,
    Instance,
    InstanceNotFoundError,
    InsufficientCapacityError,
    NodeClassNotReadyError,
    RebootNotImplementedError,
)
from karpenter.cloud.repair import violations
from karpenter.cloud.types import InstanceType
from karpenter.model import labels
from karpenter.model.resources import Resources

C = TypeVar("C", bound="ProviderContract")

PATIENCE = 20  # how often ``settle`` is called before a promise counts as broken
CANCELLATIONS = 8  # after how many turns of the event loop, at most, a launch is cancelled


class Bed(ABC):
    """A cloud that is set up for one test, with a running provider."""

    provider: CloudProvider

    @abstractmethod
    async def claim(self, name: str) -> NodeClaim:
        """A claim, with a uid of its own, that the cloud can launch; it asks for some cpu."""

    @abstractmethod
    def pool(self) -> NodePool:
        """The pool such claims belong to."""

    @abstractmethod
    async def instances(self) -> Sequence[str]:
        """The provider ids of all instances, asked of the cloud itself."""

    @abstractmethod
    async def restart(self) -> CloudProvider:
        """A second provider on the same cloud, as after a crash of the first; it replaces it."""

    @abstractmethod
    async def settle(self) -> None:
        """Give the cloud the time it needs to finish something."""

    @abstractmethod
    async def sell_out(self) -> None:
        """Make every offering unavailable, for example by selling out."""

    @abstractmethod
    async def break_node_class(self) -> None:
        """Let the node class of the claims not be ready."""

    def launched(self, claim: NodeClaim, instance: Instance) -> NodeClaim:
        """The claim as the controllers write it after a launch."""
        metadata = msgspec.structs.replace(
            claim.metadata,
            labels={**claim.metadata.labels, **instance.labels},
            annotations={**claim.metadata.annotations, **instance.annotations},
        )
        return msgspec.structs.replace(claim, metadata=metadata, status=instance.status_of(claim))

    def registered(self, claim: NodeClaim, node_name: str) -> NodeClaim:
        """The claim as the controllers write it once its node has come."""
        status = msgspec.structs.replace(claim.status, node_name=node_name)
        return msgspec.structs.replace(claim, status=status)

    def node_name(self, instance: Instance) -> str:
        """The name of the node an instance becomes, where the provider works with it."""
        return instance.provider_id.rpartition("/")[2]


def promise(check: Callable[[C, Bed], Awaitable[None]]) -> Callable[[C], None]:
    """Make a test of a check: it gets a bed of its own and runs from beginning to end."""

    def test(self: C) -> None:
        async def checked() -> None:
            async with self.bed() as bed:
                await check(self, bed)

        self.run(checked())

    # functools.wraps would show test runners the parameters of the check
    test.__name__ = getattr(check, "__name__", "test")
    test.__doc__ = check.__doc__
    return test


class ProviderContract:
    """The promises, one test each."""

    def bed(self) -> AbstractAsyncContextManager[Bed]:
        """A cloud for one test."""
        raise NotImplementedError("say how your cloud is set up")

    def run(self, test: Coroutine[Any, Any, None]) -> None:
        """Run one test; virtual time may be put here."""
        asyncio.run(test)

    @promise
    async def test_a_launch_makes_one_instance(self, bed: Bed) -> None:
        instance = await bed.provider.create(await bed.claim("one"))
        await bed.settle()

        assert [instance.provider_id] == list(await bed.instances())

    @promise
    async def test_two_claims_get_two_instances(self, bed: Bed) -> None:
        first = await bed.provider.create(await bed.claim("one"))
        second = await bed.provider.create(await bed.claim("two"))
        await bed.settle()

        assert first.provider_id != second.provider_id
        assert {first.provider_id, second.provider_id} == set(await bed.instances())

    @promise
    async def test_the_same_claim_again_gets_the_same_instance(self, bed: Bed) -> None:
        claim = await bed.claim("one")
        first = await bed.provider.create(claim)
        at_once = await bed.provider.create(claim)
        await bed.settle()
        later = await bed.provider.create(claim)
        await bed.settle()

        assert first.provider_id == at_once.provider_id == later.provider_id
        assert [first.provider_id] == list(await bed.instances())

    @promise
    async def test_the_same_claim_after_a_crash_gets_the_same_instance(self, bed: Bed) -> None:
        claim = await bed.claim("one")
        first = await bed.provider.create(claim)
        await bed.settle()
        restarted = await bed.restart()
        again = await restarted.create(claim)
        await bed.settle()

        assert first.provider_id == again.provider_id
        assert dict(first.labels) == dict(again.labels)
        assert [first.provider_id] == list(await bed.instances())

    @promise
    async def test_a_launch_that_is_cancelled_can_be_repeated(self, bed: Bed) -> None:
        for turns in range(CANCELLATIONS):
            claim = await bed.claim(f"cancelled-{turns}")
            attempt = asyncio.ensure_future(bed.provider.create(claim))
            for _ in range(turns):
                await asyncio.sleep(0)
            attempt.cancel()
            await asyncio.gather(attempt, return_exceptions=True)
            instance = await bed.provider.create(claim)
            await bed.settle()

            assert [instance.provider_id] == list(await bed.instances())
            await _delete_until_gone(bed, bed.launched(claim, instance))
            await bed.settle()

    @promise
    async def test_an_instance_is_what_its_type_says(self, bed: Bed) -> None:
        claim = await bed.claim("one")
        instance = await bed.provider.create(claim)
        types = await bed.provider.instance_types(bed.pool())

        named = [each for each in types if each.name == instance.labels[labels.INSTANCE_TYPE]]
        assert 1 == len(named)
        kind = named[0]
        offered = {
            (offering.zone, offering.capacity_type, each.key, value)
            for offering in kind.offerings
            for each in offering.requirements
            for value in each.values
        }
        place = (instance.labels[labels.ZONE], instance.labels[labels.CAPACITY_TYPE])
        for each in kind.requirements:
            if each.complement or not each.values:
                continue
            assert instance.labels[each.key] in each.values
            if each.key in (labels.ZONE, labels.CAPACITY_TYPE):
                assert (*place, each.key, instance.labels[each.key]) in offered

    @promise
    async def test_an_instance_holds_what_its_claim_asks_for(self, bed: Bed) -> None:
        claim = await bed.claim("one")
        instance = await bed.provider.create(claim)

        requests = Resources.from_wire(claim.spec.resources.requests)
        assert requests
        assert requests.fits(Resources.from_wire(instance.allocatable))
        allocatable = Resources.from_wire(instance.allocatable)
        assert allocatable.fits(Resources.from_wire(instance.capacity))

    @promise
    async def test_get_and_list_agree_about_a_launched_instance(self, bed: Bed) -> None:
        instance = await bed.provider.create(await bed.claim("one"))
        await bed.settle()
        found = await bed.provider.get(instance.provider_id)
        listed = await bed.provider.list()

        assert [found] == list(listed)
        assert instance.provider_id == found.provider_id
        assert dict(instance.labels) == {key: found.labels[key] for key in instance.labels}

    @promise
    async def test_a_list_says_when_instances_were_made(self, bed: Bed) -> None:
        await bed.provider.create(await bed.claim("one"))
        await bed.settle()
        listed = await bed.provider.list()

        assert 1 == len(listed)
        assert listed[0].provider_id
        assert listed[0].created_at is not None
        assert listed[0].created_at.tzinfo is not None

    @promise
    async def test_an_instance_that_never_was_is_not_found(self, bed: Bed) -> None:
        instance = await bed.provider.create(await bed.claim("one"))
        await bed.settle()

        await _raises(InstanceNotFoundError, bed.provider.get(f"{instance.provider_id}0"))

    @promise
    async def test_an_instance_is_deleted_until_it_is_gone(self, bed: Bed) -> None:
        claim = await bed.claim("one")
        instance = await bed.provider.create(claim)
        await bed.settle()
        await _delete_until_gone(bed, bed.launched(claim, instance))
        await bed.settle()

        assert [] == list(await bed.instances())
        assert [] == [each for each in await bed.provider.list() if not each.is_deleting]
        await _raises(InstanceNotFoundError, bed.provider.get(instance.provider_id))

    @promise
    async def test_a_claim_deleted_right_after_its_launch_leaves_nothing(self, bed: Bed) -> None:
        claim = await bed.claim("one")
        instance = await bed.provider.create(claim)
        await _delete_until_gone(bed, bed.launched(claim, instance))
        await bed.settle()

        assert [] == list(await bed.instances())

    @promise
    async def test_deleting_one_instance_leaves_the_others(self, bed: Bed) -> None:
        claim = await bed.claim("one")
        instance = await bed.provider.create(claim)
        other = await bed.provider.create(await bed.claim("two"))
        await bed.settle()
        await _delete_until_gone(bed, bed.launched(claim, instance))
        await bed.settle()

        assert [other.provider_id] == list(await bed.instances())

    @promise
    async def test_a_claim_that_was_never_launched_has_nothing_to_delete(self, bed: Bed) -> None:
        await _raises(InstanceNotFoundError, bed.provider.delete(await bed.claim("one")))

    @promise
    async def test_a_cloud_that_is_sold_out_says_so(self, bed: Bed) -> None:
        await bed.sell_out()
        before = list(await bed.instances())

        await _raises(InsufficientCapacityError, bed.provider.create(await bed.claim("one")))
        await bed.settle()
        assert before == list(await bed.instances())
        types = await bed.provider.instance_types(bed.pool())
        assert not any(offering.is_launchable for kind in types for offering in kind.offerings)

    @promise
    async def test_a_node_class_that_is_not_ready_launches_nothing(self, bed: Bed) -> None:
        await bed.break_node_class()

        await _raises(NodeClassNotReadyError, bed.provider.create(await bed.claim("one")))
        await bed.settle()
        assert [] == list(await bed.instances())

    @promise
    async def test_instance_types_are_well_formed(self, bed: Bed) -> None:
        types = await bed.provider.instance_types(bed.pool())

        assert types
        names = [kind.name for kind in types]
        assert sorted(set(names)) == sorted(names)
        assert [] == [problem for kind in types for problem in type_problems(kind)]

    @promise
    async def test_the_provider_says_who_it_is(self, bed: Bed) -> None:
        facts = bed.provider.facts

        assert facts.name
        reference = bed.pool().spec.template.spec.node_class_ref
        assert (reference.group, reference.kind) in facts.node_classes
        assert not facts.serves_any
        assert labels.CORE_WELL_KNOWN <= facts.well_known_labels

    @promise
    async def test_a_fresh_instance_has_not_drifted(self, bed: Bed) -> None:
        claim = await bed.claim("one")
        instance = await bed.provider.create(claim)
        await bed.settle()

        assert "" == await bed.provider.drift_reason(bed.launched(claim, instance))

    @promise
    async def test_a_restart_may_be_asked_for_twice(self, bed: Bed) -> None:
        claim = await bed.claim("one")
        instance = await bed.provider.create(claim)
        await bed.settle()
        ready = bed.registered(bed.launched(claim, instance), bed.node_name(instance))
        try:
            await bed.provider.reboot(ready, "operation")
        except RebootNotImplementedError:
            return
        await bed.provider.reboot(ready, "operation")
        await bed.settle()

        assert [instance.provider_id] == list(await bed.instances())

    @promise
    async def test_repair_policies_are_valid(self, bed: Bed) -> None:
        policies = bed.provider.repair_policies
        # None at all is valid too: the controller then refuses the feature gate NodeRepair
        assert () == (violations(policies) if policies else ())


def type_problems(kind: InstanceType) -> list[str]:
    """The defects of instance types that would mislead planners, one sentence each.

    Unavailable offerings are not checked: planners use them only to explain a refusal.
    """
    problems = []
    if kind.requirements[labels.INSTANCE_TYPE].values != {kind.name}:
        problems.append(f"{kind.name}: must require {labels.INSTANCE_TYPE} to be its name")
    if not kind.offerings:
        problems.append(f"{kind.name}: has no offerings")
    if kind.allocatable.cpu <= 0 or kind.allocatable.memory <= 0 or kind.allocatable.pods <= 0:
        problems.append(f"{kind.name}: must have cpu, memory and pods left for pods")
    for offering in (each for each in kind.offerings if each.available):
        if not offering.zone:
            problems.append(f"{kind.name}: an offering has no zone")
        if offering.capacity_type not in labels.CAPACITY_TYPES:
            problems.append(f"{kind.name}: an offering has no known capacity type")
        if not math.isfinite(offering.price) or offering.price < 0:
            problems.append(f"{kind.name}: the price {offering.price} is not a sum of money")
        if kind.requirements.conflict(offering.requirements) is not None:
            problems.append(f"{kind.name}: an offering conflicts with its type")
    return problems


async def _delete_until_gone(bed: Bed, claim: NodeClaim) -> None:
    for _ in range(PATIENCE):
        try:
            await bed.provider.delete(claim)
        except InstanceNotFoundError:
            return
        await bed.settle()
    raise AssertionError("delete never said that the instance is gone")


async def _raises(expected: type[Exception], call: Awaitable[object]) -> None:
    try:
        await call
    except expected:
        return
    raise AssertionError(f"{expected.__name__} was not raised")

"""CreateFleet for many claims at once.

Claims that ask for exactly the same share a call. Asked again because no answer came, the same
claims send the same client token, so EC2 gives the instances it has launched already.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from karpenter.clock import Clock
from karpenter.cloud.aws.batching import CREATE_FLEET, Batcher, BatchObserver
from karpenter.cloud.aws.calls import Calls
from karpenter.cloud.aws.errors import AwsError
from karpenter.cloud.aws.fleet import FleetRequest, Fulfilled, fleet_answer
from karpenter.cloud.aws.launch_errors import TOO_FEW, FleetError
from karpenter.cloud.aws.tags import tag_list
from karpenter.model.labels import NODECLAIM_TAG

_INSTANCE: Final = "instance"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FleetAsk:
    """One claim's part in a fleet."""

    request: FleetRequest
    claim_name: str
    claim_uid: str
    attempt: int = 0  # after a failure that was answered, another token is needed


@dataclass(frozen=True, slots=True)
class FleetShare:
    """What became of one claim's part."""

    instance: Fulfilled | None
    errors: tuple[FleetError, ...]  # of the whole fleet


class Fleets:
    """Launches instances."""

    def __init__(self, calls: Calls, clock: Clock, observe: BatchObserver | None = None) -> None:
        self._calls = calls
        self._batcher: Batcher[FleetAsk, FleetShare] = Batcher(
            "create_fleet", CREATE_FLEET, clock, self._create, observe
        )
        self._tagging: set[asyncio.Task[None]] = set()

    async def launch(self, ask: FleetAsk) -> FleetShare:
        """Launch one instance, in a fleet with whoever asks for the same at the same time.

        Raises:
            AwsError: the call failed as a whole.
        """
        return await self._batcher.ask(ask, ask.request.alike)

    async def finish(self) -> None:
        """Wait for the calls that are under way."""
        await self._batcher.finish()
        await asyncio.gather(*self._tagging, return_exceptions=True)

    async def _create(self, asks: Sequence[FleetAsk]) -> list[FleetShare | Exception]:
        request = dict(asks[0].request.parameters)
        target = request["TargetCapacitySpecification"]
        request["TargetCapacitySpecification"] = {**target, "TotalTargetCapacity": len(asks)}
        if len(asks) == 1:
            request["TagSpecifications"] = _named(request["TagSpecifications"], asks[0].claim_name)
        answer = fleet_answer(
            await self._calls.call("ec2", "CreateFleet", ClientToken=_token(asks), **request)
        )
        errors = answer.errors
        if not answer.instances and not errors:
            errors = (FleetError(TOO_FEW, "the fleet brought too few instances"),)
        if len(asks) > 1:
            self._name_later(answer.instances, asks)
        found = answer.instances
        return [
            FleetShare(found[place] if place < len(found) else None, errors)
            for place in range(len(asks))
        ]

    def _name_later(self, instances: Sequence[Fulfilled], asks: Sequence[FleetAsk]) -> None:
        """Write claims' names on instances; one fleet has but one set of tags for all of them."""
        pairs = [
            (instance.instance_id, ask.claim_name)
            for instance, ask in zip(instances, asks, strict=False)
        ]
        task = asyncio.get_running_loop().create_task(self._name(pairs))
        self._tagging.add(task)
        task.add_done_callback(self._tagging.discard)

    async def _name(self, pairs: Sequence[tuple[str, str]]) -> None:
        for instance_id, name in pairs:
            try:
                await self._calls.call(
                    "ec2",
                    "CreateTags",
                    Resources=[instance_id],
                    Tags=tag_list({NODECLAIM_TAG: name}),
                )
            except AwsError as error:
                # whoever tags nodes later will add what is missing
                log.debug("instance not tagged", instance=instance_id, error=str(error))


def _named(specifications: Sequence[Mapping[str, Any]], name: str) -> list[dict[str, Any]]:
    return [
        {**each, "Tags": [*each["Tags"], {"Key": NODECLAIM_TAG, "Value": name}]}
        if each["ResourceType"] == _INSTANCE
        else dict(each)
        for each in specifications
    ]


def _token(asks: Sequence[FleetAsk]) -> str:
    parts = sorted(f"{ask.claim_uid}/{ask.attempt}" for ask in asks)
    return hashlib.sha256("\n".join(parts).encode() + asks[0].request.alike).hexdigest()

"""The instances of a cluster: listed, cached and terminated with few calls.

EC2 may omit an instance for some seconds after it was launched. An instance that this
process launched therefore counts as existing for a while, even if lists omit it.

An instance without the cluster's tags is not the cluster's: it is not listed here, and so never
terminated.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes import ec2_labels
from karpenter.api.nodes import Node
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.batching import (
    DESCRIBE_INSTANCES,
    TERMINATE_INSTANCES,
    Batcher,
    BatchObserver,
)
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.errors import (
    RETRYABLE,
    AwsCredentialsError,
    AwsError,
    AwsUnauthorizedError,
    instances_named_in,
    is_unknown_instance,
)
from karpenter.cloud.aws.ec2.provider_id import instance_id_of
from karpenter.cloud.aws.ec2.tags import cluster_tag, tag_list
from karpenter.cloud.aws.instances.record import ALIVE, InstanceRecord, record_of
from karpenter.cloud.provider import CloudError, HookResult, InstanceNotFoundError
from karpenter.model import labels

_PAGE: Final = 1000
_MOST_NAMES: Final = 200  # values of one filter
_INVISIBLE: Final = timedelta(seconds=60)
# Errors that splitting the call into smaller ones would not avoid
_ABOUT_THE_CALL: Final = (*RETRYABLE, AwsCredentialsError, AwsUnauthorizedError)
_ALIVE_FILTER: Final = {"Name": "instance-state-name", "Values": list(ALIVE)}


class Instances:
    """The instances of one cluster."""

    def __init__(
        self,
        calls: Calls,
        clock: Clock,
        cluster: str,
        *,
        chooses_reservations: bool,
        is_shifted: Callable[[str], bool] = lambda zone: False,
        observe: BatchObserver | None = None,
    ) -> None:
        """Manage the instances tagged with ``cluster``; ``is_shifted`` checks a zone."""
        self._calls = calls
        self._clock = clock
        self._cluster = cluster
        self._chooses_reservations = chooses_reservations
        self._is_shifted = is_shifted
        self._known: dict[str, InstanceRecord] = {}
        self._terminated: set[str] = set()  # by this process: gone once lists omit them
        self._describing: Batcher[str, InstanceRecord | None] = Batcher(
            "describe_instances", DESCRIBE_INSTANCES, clock, self._describe, observe
        )
        self._searching: Batcher[str, InstanceRecord | None] = Batcher(
            "describe_instances", DESCRIBE_INSTANCES, clock, self._search, observe
        )
        self._terminating: Batcher[str, None] = Batcher(
            "terminate_instances", TERMINATE_INSTANCES, clock, self._terminate, observe
        )

    def remember(self, record: InstanceRecord) -> None:
        """Take note of an instance that was launched."""
        self._known[record.id] = record

    def known(self, instance_id: str) -> InstanceRecord | None:
        """The cached record of an instance."""
        return self._known.get(instance_id)

    async def get(self, instance_id: str, *, cached: bool = True) -> InstanceRecord:
        """An instance, even one that is shutting down.

        Raises:
            InstanceNotFoundError: there is none.
        """
        known = self._known.get(instance_id)
        if known is not None and (cached or self._is_shifted(known.zone)):
            return known
        found = await self._describing.ask(instance_id)
        if found is not None and self._is_ours(found):
            self._known[instance_id] = found
            return found
        if found is None and known is not None and self._may_be_invisible(known):
            return known
        self._known.pop(instance_id, None)
        raise InstanceNotFoundError(
            f"there is no instance {instance_id} with the tags of cluster {self._cluster}"
        )

    async def all(self) -> Sequence[InstanceRecord]:
        """Every instance of the cluster that was made for a claim."""
        filters = [
            _ALIVE_FILTER,
            {"Name": "tag-key", "Values": [labels.NODEPOOL]},
            {"Name": "tag-key", "Values": [ec2_labels.NODE_CLASS]},
            {"Name": f"tag:{ec2_labels.EKS_CLUSTER_NAME_TAG}", "Values": [self._cluster]},
        ]
        seen = {each.id: each for each in await self._pages(Filters=filters, MaxResults=_PAGE)}
        # checked again here: a listed instance may be terminated, so EC2's filter is not trusted
        found = {
            key: each
            for key, each in seen.items()
            if self._is_ours(each) and ec2_labels.NODE_CLASS in each.tags
        }
        found |= {
            key: each for key, each in self._known.items() if key not in seen and self._stays(each)
        }
        self._known = found
        self._terminated &= found.keys()
        return [found[key] for key in sorted(found)]

    async def of_claim(self, name: str) -> InstanceRecord | None:
        """The instance that is tagged with a claim's name and not on its way out."""
        return await self._searching.ask(name)

    async def terminate(self, instance_id: str) -> None:
        """End an instance.

        Raises:
            InstanceNotFoundError: it is gone.
        """
        record = await self.get(instance_id, cached=False)
        if self._is_shifted(record.zone):
            raise CloudError(
                f"instance {instance_id} is in zone {record.zone}, which is shifted away from;"
                " it is left alone until the shift is over"
            )
        if record.is_leaving:
            return
        try:
            await self._terminating.ask(instance_id)
        except AwsError as error:
            if not is_unknown_instance(error):
                raise
            if self._may_be_invisible(record):
                raise CloudError(f"instance {instance_id} is not visible to EC2 yet") from error
            raise InstanceNotFoundError(f"there is no instance {instance_id}") from error
        self._terminated.add(instance_id)

    async def tag(self, record: InstanceRecord, tags: Mapping[str, str]) -> None:
        """Add tags to an instance."""
        if self._is_shifted(record.zone):
            raise CloudError(f"instance {record.id} is in a zone that is shifted away from")
        await self._calls.call("ec2", "CreateTags", Resources=[record.id], Tags=tag_list(tags))

    async def finish(self) -> None:
        """Wait for the calls that are under way."""
        for batcher in (self._describing, self._searching, self._terminating):
            await batcher.finish()

    def _stays(self, record: InstanceRecord) -> bool:
        """Whether an instance that a list omits still counts as existing."""
        return self._is_shifted(record.zone) or self._may_be_invisible(record)

    def _may_be_invisible(self, record: InstanceRecord) -> bool:
        return (
            record.id not in self._terminated
            and record.launched_at is not None
            and self._clock.now() - record.launched_at < _INVISIBLE
        )

    async def _describe(self, ids: Sequence[str]) -> list[InstanceRecord | Exception | None]:
        wanted = list(dict.fromkeys(ids))
        unknown: set[str] = set()
        found = await self._described(wanted, unknown)
        silent = [each for each in wanted if each not in found and each not in unknown]
        if silent and len(silent) < len(ids):
            # Neither returned nor reported as unknown: terminated, or omitted by a busy EC2
            found |= await self._described(silent, unknown)
        return [found.get(each) for each in ids]

    async def _described(self, ids: Sequence[str], unknown: set[str]) -> dict[str, InstanceRecord]:
        """Describe instances; the call is repeated without ids that EC2 refuses as unknown."""
        left = list(ids)
        while left:
            try:
                records = await self._pages(InstanceIds=left, Filters=[_ALIVE_FILTER])
            except AwsError as error:
                if not is_unknown_instance(error):
                    raise
                unknown |= instances_named_in(error)
                known = [each for each in left if each not in unknown]
                if len(known) == len(left):
                    return await self._described_apart(left, unknown)
                left = known
            else:
                return {record.id: record for record in records}
        return {}

    async def _described_apart(
        self, ids: Sequence[str], unknown: set[str]
    ) -> dict[str, InstanceRecord]:
        """The same by bisection, where the error does not name the unknown ids."""
        if len(ids) == 1:
            unknown.update(ids)
            return {}
        first, second = await asyncio.gather(
            *(self._described(half, unknown) for half in _halves(ids))
        )
        return first | second

    async def _search(self, names: Sequence[str]) -> list[InstanceRecord | Exception | None]:
        listed = list(dict.fromkeys(names))
        found: dict[str, InstanceRecord] = {}
        for start in range(0, len(listed), _MOST_NAMES):
            filters = [
                _ALIVE_FILTER,
                {"Name": f"tag:{ec2_labels.EKS_CLUSTER_NAME_TAG}", "Values": [self._cluster]},
                {
                    "Name": f"tag:{ec2_labels.NODECLAIM_TAG}",
                    "Values": listed[start : start + _MOST_NAMES],
                },
            ]
            for record in await self._pages(Filters=filters, MaxResults=_PAGE):
                if self._is_ours(record) and not record.is_leaving:
                    found[record.tags[ec2_labels.NODECLAIM_TAG]] = record
        return [found.get(name) for name in names]

    async def _pages(self, **parameters: Any) -> list[InstanceRecord]:
        reservations = await self._calls.pages(
            "ec2", "DescribeInstances", "Reservations", **parameters
        )
        return [
            record_of(entry, chooses_reservations=self._chooses_reservations)
            for reservation in reservations
            for entry in reservation.get("Instances") or ()
        ]

    def _is_ours(self, record: InstanceRecord) -> bool:
        is_owned = record.tags.get(cluster_tag(self._cluster)) == "owned"
        return is_owned and labels.NODEPOOL in record.tags

    async def _terminate(self, ids: Sequence[str]) -> list[Exception | None]:
        errors = await self._end(list(dict.fromkeys(ids)))
        return [errors.get(each) for each in ids]

    async def _end(self, ids: Sequence[str]) -> dict[str, Exception]:
        """Terminate instances; the call is repeated without those that EC2 refuses by name.

        Returns the error of each instance that has not begun to shut down.
        """
        errors: dict[str, Exception] = {}
        left = list(ids)
        while left:
            try:
                ended = await self._ended(left)
            except AwsError as error:
                blamed = set() if isinstance(error, RETRYABLE) else instances_named_in(error)
                others = [each for each in left if each not in blamed]
                if len(others) == len(left):
                    return errors | await self._end_apart(left, error)
                errors |= {each: error for each in left if each in blamed}
                left = others
            else:
                return errors | await self._end_stuck(left, ended)
        return errors

    async def _end_apart(self, ids: Sequence[str], error: AwsError) -> dict[str, Exception]:
        """The same by bisection, where the error does not name the refused ids."""
        if len(ids) == 1 or isinstance(error, _ABOUT_THE_CALL):
            return dict.fromkeys(ids, error)
        first, second = await asyncio.gather(*(self._end(half) for half in _halves(ids)))
        return first | second

    async def _end_stuck(self, ids: Sequence[str], ended: set[str]) -> dict[str, Exception]:
        """Retry, one by one, the instances that EC2 accepted and did not begin to terminate."""
        stuck = [each for each in ids if each not in ended]
        if len(ids) == 1:
            return {
                each: CloudError(f"instance {each} did not begin to shut down") for each in stuck
            }
        alone = await asyncio.gather(*(self._end([each]) for each in stuck))
        return {key: error for errors in alone for key, error in errors.items()}

    async def _ended(self, ids: list[str]) -> set[str]:
        answer = await self._calls.call("ec2", "TerminateInstances", InstanceIds=ids)
        return {
            entry["InstanceId"]
            for entry in answer.get("TerminatingInstances") or ()
            if (entry.get("CurrentState") or {}).get("Name") in ("shutting-down", "terminated")
        }


def _halves(ids: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    middle = len(ids) // 2
    return ids[:middle], ids[middle:]


class PartitionHook:
    """Waits until EC2 returns the partition that an instance is in.

    A node in a partition placement group gets the label of its partition before it takes pods.
    """

    name: Final = "placement-group-partition"

    def __init__(self, instances: Instances) -> None:
        self._instances = instances

    async def __call__(self, claim: NodeClaim, node: Node) -> HookResult:
        if claim.metadata.labels.get(ec2_labels.PLACEMENT_GROUP_PARTITION, "unasked"):
            return HookResult(is_ready=True)
        instance_id = instance_id_of(claim.status.provider_id)
        record = await self._instances.get(instance_id, cached=False)
        if not record.partition:
            return HookResult(is_ready=False)
        return HookResult(
            is_ready=True, labels={ec2_labels.PLACEMENT_GROUP_PARTITION: record.partition}
        )

"""Launch templates: made when needed, found again by name, deleted when nobody uses them.

A template's name follows from its content, so two processes that want the same one find the same
one. What this process has used lately it remembers; what it forgets, it deletes.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog
from prometheus_client import Gauge

from karpenter.clock import Clock
from karpenter.cloud.aws.calls import Calls
from karpenter.cloud.aws.errors import (
    AwsAlreadyExistsError,
    AwsError,
    AwsNotFoundError,
    is_not_found,
)
from karpenter.cloud.aws.launch_template_data import Blueprint, template_data, template_name
from karpenter.cloud.aws.tags import cluster_tag, tag_list
from karpenter.model.labels import EC2_NODE_CLASS

LIFETIME: Final = 60.0  # since its last use
SWEEP: Final = 60.0

log = structlog.get_logger(__name__)


class LaunchTemplates:
    """The launch templates of one cluster."""

    name: Final = "launchtemplates"

    def __init__(
        self, calls: Calls, clock: Clock, cluster: str, sizes: Gauge | None = None
    ) -> None:
        """Look after templates; ``sizes`` shows how large boot scripts are, by node class."""
        self._calls = calls
        self._sizes = sizes
        self._clock = clock
        self._cluster = cluster
        self._used_at: dict[str, float] = {}  # name -> last use
        self._making: dict[str, asyncio.Lock] = {}

    async def ensure(self, blueprint: Blueprint, name: str = "") -> str:
        """Make sure that the template of a blueprint exists, and return its name.

        Args:
            blueprint: what is in the template.
            name: what it is called, if that has been worked out already.
        """
        name = name or template_name(blueprint)
        async with self._making.setdefault(name, asyncio.Lock()):
            if name not in self._used_at and not await self._exists(name):
                await self._create(name, blueprint)
            self._used_at[name] = self._clock.monotonic()
        return name

    def forget(self, names: Sequence[str]) -> None:
        """Take note that templates have vanished."""
        for name in names:
            self._used_at.pop(name, None)

    async def adopt(self) -> None:
        """Remember all templates of the cluster, so that those nobody uses go in time."""
        now = self._clock.monotonic()
        for name in await self._names({f"tag:{cluster_tag(self._cluster)}": "owned"}):
            self._used_at.setdefault(name, now)

    async def sweep(self) -> None:
        """Delete the templates that have not been used for a while."""
        due = self._clock.monotonic() - LIFETIME
        for name in [name for name, used in self._used_at.items() if used <= due]:
            await self._drop(name, unless_used_after=due)

    async def delete_of(self, node_class: str) -> None:
        """Delete every template of a node class, whoever made it."""
        filters = {
            f"tag:{cluster_tag(self._cluster)}": "owned",
            f"tag:{EC2_NODE_CLASS}": node_class,
        }
        for name in await self._names(filters):
            self.forget([name])
            await self._delete(name)
        if self._sizes is not None:
            self._sizes.remove(node_class)

    async def run(self) -> None:
        """Delete what is not used any more, now and then, until cancelled."""
        is_adopted = False
        while True:
            try:
                if not is_adopted:
                    await self.adopt()
                    is_adopted = True
                await self.sweep()
            except AwsError as error:
                log.warning("launch templates not looked after", error=str(error))
            await self._clock.sleep(SWEEP)

    async def _exists(self, name: str) -> bool:
        try:
            answer = await self._calls.call(
                "ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name]
            )
        except AwsNotFoundError:
            return False
        return bool(answer.get("LaunchTemplates"))

    async def _create(self, name: str, blueprint: Blueprint) -> None:
        tags = [{"ResourceType": "launch-template", "Tags": tag_list(blueprint.tags)}]
        if self._sizes is not None:
            size = len(blueprint.user_data.encode())
            self._sizes.labels(blueprint.node_class.metadata.name).set(size)
        try:
            await self._calls.call(
                "ec2",
                "CreateLaunchTemplate",
                LaunchTemplateName=name,
                LaunchTemplateData=template_data(blueprint),
                TagSpecifications=tags,
            )
        except AwsAlreadyExistsError:
            return  # another process was faster, and the name says that the content is the same
        log.debug("launch template created", name=name)

    async def _names(self, filters: dict[str, str]) -> list[str]:
        found = await self._calls.pages(
            "ec2",
            "DescribeLaunchTemplates",
            "LaunchTemplates",
            Filters=[{"Name": key, "Values": [value]} for key, value in filters.items()],
        )
        return sorted(entry["LaunchTemplateName"] for entry in found)

    async def _drop(self, name: str, *, unless_used_after: float) -> None:
        async with self._making.setdefault(name, asyncio.Lock()):
            if self._used_at.get(name, 0.0) > unless_used_after:
                return
            await self._delete(name)
            self._used_at.pop(name, None)
        self._making.pop(name, None)

    async def _delete(self, name: str) -> None:
        try:
            await self._calls.call("ec2", "DeleteLaunchTemplate", LaunchTemplateName=name)
        except AwsError as error:
            if not is_not_found(error):
                raise
        else:
            log.debug("launch template deleted", name=name)

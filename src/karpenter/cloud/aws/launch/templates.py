"""Launch templates: created on demand, found again by name, deleted when unused.

A template's name is derived from its content, so two processes that need the same content share one
template. Templates used recently are cached; a template that expires from the cache is deleted.

Others keep templates in the same account, some of them tagged as owned by the cluster as well: node
groups, other tools, users. Only what carries our name and our tags is ever deleted.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import structlog
from prometheus_client import Gauge

from karpenter.api.node_classes import ec2_labels
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.errors import (
    AwsAlreadyExistsError,
    AwsError,
    AwsNotFoundError,
    is_not_found,
)
from karpenter.cloud.aws.ec2.tags import tag_list, tags_of
from karpenter.cloud.aws.launch.template_data import (
    NAME_PREFIX,
    Blueprint,
    template_data,
    template_name,
)

LIFETIME: Final = 60.0  # since its last use
SWEEP: Final = 60.0

log = structlog.get_logger(__name__)


class LaunchTemplates:
    """The launch templates of one cluster."""

    name: Final = "launchtemplates"

    def __init__(
        self, calls: Calls, clock: Clock, cluster: str, sizes: Gauge | None = None
    ) -> None:
        """Manage templates; ``sizes`` exports the size of boot scripts, by node class."""
        self._calls = calls
        self._sizes = sizes
        self._clock = clock
        self._cluster = cluster
        self._used_at: dict[str, float] = {}  # name -> last use
        self._in_use: Counter[str] = Counter()  # name -> fleets that are under way with it
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

    @contextmanager
    def in_use(self, names: Sequence[str]) -> Iterator[None]:
        """Keep templates while a CreateFleet call uses them, which may take minutes."""
        self._in_use.update(names)
        try:
            yield
        finally:
            self._in_use.subtract(names)
            now = self._clock.monotonic()
            for name in names:
                if not self._in_use[name]:
                    del self._in_use[name]
                if name in self._used_at:
                    self._used_at[name] = now

    def forget(self, names: Sequence[str]) -> None:
        """Drop templates from the cache, because EC2 does not find them."""
        for name in names:
            self._used_at.pop(name, None)

    async def adopt(self) -> None:
        """Cache all templates of the cluster, so that unused ones expire and are deleted."""
        now = self._clock.monotonic()
        for name in await self._names():
            self._used_at.setdefault(name, now)

    async def sweep(self) -> None:
        """Delete the templates that have not been used for a while.

        One that cannot be deleted is tried again with the next sweep.
        """
        due = self._clock.monotonic() - LIFETIME
        for name in [name for name, used in self._used_at.items() if used <= due]:
            try:
                await self._drop(name, unless_used_after=due)
            except AwsError as error:
                log.warning("launch template not deleted", name=name, error=str(error))

    async def delete_of(self, node_class: str) -> None:
        """Delete every template of a node class, whichever process made it.

        Raises:
            AwsError: one of them could not be deleted; the others have been.
        """
        failure: AwsError | None = None
        for name in await self._names({f"tag:{ec2_labels.NODE_CLASS}": node_class}):
            self.forget([name])
            try:
                await self._delete(name)
            except AwsError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        if self._sizes is not None:
            self._sizes.remove(node_class)

    async def run(self) -> None:
        """Delete unused templates periodically, until cancelled."""
        is_adopted = False
        while True:
            try:
                if not is_adopted:
                    await self.adopt()
                    is_adopted = True
            except AwsError as error:
                log.warning("launch templates of earlier processes not found", error=str(error))
            await self.sweep()
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
            return  # created by another process; the name is a hash, so the content is the same
        log.debug("launch template created", name=name)

    async def _names(self, more: Mapping[str, str] | None = None) -> list[str]:
        """The templates that we made for this cluster; ``more`` are filters."""
        filters = {f"tag:{ec2_labels.EKS_CLUSTER_NAME_TAG}": self._cluster, **(more or {})}
        found = await self._calls.pages(
            "ec2",
            "DescribeLaunchTemplates",
            "LaunchTemplates",
            Filters=[{"Name": key, "Values": [value]} for key, value in filters.items()],
        )
        return sorted(entry["LaunchTemplateName"] for entry in found if self._is_ours(entry))

    def _is_ours(self, entry: Mapping[str, Any]) -> bool:
        """Whether it may be deleted; checked here as well, because EC2's filter is not trusted."""
        of_cluster = (
            tags_of(entry.get("Tags")).get(ec2_labels.EKS_CLUSTER_NAME_TAG) == self._cluster
        )
        return of_cluster and entry["LaunchTemplateName"].startswith(NAME_PREFIX)

    async def _drop(self, name: str, *, unless_used_after: float) -> None:
        async with self._making.setdefault(name, asyncio.Lock()):
            if name in self._in_use or self._used_at.get(name, 0.0) > unless_used_after:
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

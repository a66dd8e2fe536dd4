"""Publishes the controller's catalogue settings in annotations, for readers of the cluster.

``KWOK_SOLD_OUT`` and ``INSTANCE_TYPES_FILE_PATH`` are known to one process only. While that process
leads, it keeps them in annotations of every KWOKNodeClass, so that ``plan`` and ``explain`` use the
same catalogue or warn that they do not. A process without these settings removes the annotations of
an earlier one.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Final

import structlog

from karpenter.api.node_classes.kwok import KWOKNodeClass
from karpenter.clock import Clock
from karpenter.kube.client import Kube
from karpenter.kube.errors import KubeError, NotFoundError
from karpenter.kube.guard import Guard
from karpenter.kube.mirror import Mirror
from karpenter.kube.reflector import Reflector

TRY_AGAIN: Final = 60.0  # seconds until what could not be written is tried again

log = structlog.get_logger(__name__)


class Notice:
    """Keeps annotations of all KWOKNodeClasses, for as long as ``run`` runs."""

    def __init__(
        self, kube: Kube, clock: Clock, rng: random.Random, annotations: Mapping[str, str]
    ) -> None:
        """Prepare the annotations; one with an empty text is to be removed."""
        self._kube = kube
        self._clock = clock
        self._rng = rng
        self._wanted = dict(annotations)
        self._complaint = ""  # what was logged last, while it lasts

    async def run(self) -> None:
        """Follow the node classes until cancelled."""
        classes = Mirror(KWOKNodeClass, Guard(self._clock))
        changed = asyncio.Event()
        classes.on_change(lambda old, new: changed.set())
        reflector = Reflector(self._kube, KWOKNodeClass, classes, self._clock, rng=self._rng)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(reflector.run())
            while True:
                await changed.wait()
                changed.clear()
                if not await self._write_all(classes):
                    await self._clock.wait(changed, seconds=TRY_AGAIN)
                    changed.set()

    async def _write_all(self, classes: Mirror[KWOKNodeClass]) -> bool:
        """Bring all annotations up to date, and return whether all writes succeeded."""
        failure = ""
        for each in sorted(classes.list(), key=lambda found: found.metadata.name):
            held = each.metadata.annotations
            changed = {key: text or None for key, text in self._wanted.items()}
            if all(held.get(key) == text for key, text in changed.items()):
                continue
            body = {"metadata": {"annotations": changed}}
            try:
                classes.put(await self._kube.patch(KWOKNodeClass, each.metadata.name, body))
            except NotFoundError:
                continue  # deleted meanwhile; the watch will report it
            except KubeError as error:
                failure = failure or f"KWOKNodeClass {each.metadata.name}: {error}"
        if failure and failure != self._complaint:
            log.warning("annotations for plan and explain not written", error=failure)
        self._complaint = failure
        return not failure

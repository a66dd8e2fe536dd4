"""The simulated provider: launching an instance means creating a Node object.

Something else, kwok or the sandbox's kubelets, makes such Nodes ready and runs their pods. The
provider differs from Karpenter's own on purpose where that one is wrong: a Node has the capacity
of its type rather than that of the requests, types without a fitting offering are skipped, and a
launch survives the process that began it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeAlias

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.node_classes.kwok import KWOKNodeClass
from karpenter.api.nodes import Node
from karpenter.clock import Clock
from karpenter.cloud.kwok import catalogue
from karpenter.cloud.kwok.arrivals import Arrivals, registration_delay, remove_node
from karpenter.cloud.kwok.entries import CatalogueError
from karpenter.cloud.kwok.faults import (
    REMEMBERED,
    SOLD_OUT_EVERYWHERE,
    Faults,
    OfferingPattern,
    PatternError,
    declared,
    declared_everywhere,
    declared_sold_out,
    in_text,
)
from karpenter.cloud.kwok.interruptions import Interruptions
from karpenter.cloud.kwok.machine import (
    LAUNCH_FAILED,
    PROVIDER_PREFIX,
    choose,
    image_of,
    instance_of,
    listed_types,
    machine_for,
    node_name_of,
)
from karpenter.cloud.kwok.notice import Notice
from karpenter.cloud.kwok.prices import Prices
from karpenter.cloud.kwok.reservations import Reservations
from karpenter.cloud.provider import (
    REBOOT_NODE,
    CloudError,
    CreateError,
    Instance,
    InstanceNotFoundError,
    InsufficientCapacityError,
    NodeClassNotReadyError,
    RegistrationHook,
    RepairPolicy,
)
from karpenter.cloud.registry import ProviderContext, ProviderError
from karpenter.cloud.types import InstanceType, ProviderFacts
from karpenter.decision_log.log import DecisionLog
from karpenter.kube.client import Kube
from karpenter.kube.errors import NotFoundError
from karpenter.model.conditions import FALSE, READY, TRUE, UNKNOWN, find
from karpenter.os_errors import os_reason

INSTANCE_TYPES_FILE_PATH: Final = "INSTANCE_TYPES_FILE_PATH"
INSTANCE_TYPES: Final = "karpenter.kwok.sh/instance-types-file"  # the controller's to write
_UNREADY: Final = timedelta(minutes=10)
_UNHEALTHY: Final = timedelta(seconds=30)
_ANY_REASON: Final = ".*"
IMAGE_DRIFT: Final = "ImageDrift"
_IMAGE_SECONDS: Final = 10.0  # for which the image of a node class is not read again

REPAIR_POLICIES: Final = (
    RepairPolicy(READY, FALSE, _UNREADY, termination_grace_period=timedelta(0)),
    RepairPolicy(READY, UNKNOWN, _UNREADY, _ANY_REASON, timedelta(0)),
    RepairPolicy("KWOKUnhealthy", TRUE, _UNHEALTHY, _ANY_REASON, timedelta(seconds=45)),
    RepairPolicy(
        "KWOKRebootRequired",
        TRUE,
        _UNHEALTHY,
        _ANY_REASON,
        timedelta(minutes=1),
        action=REBOOT_NODE,
    ),
)


class KwokProvider:
    """A cloud of Node objects; Nodes appear only while ``run`` runs."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        types: tuple[InstanceType, ...],
        faults: Faults | None = None,
        notice: Notice | None = None,
        *,
        prices: Prices | None = None,
        decisions: DecisionLog | None = None,
    ) -> None:
        """Make a cloud that sells ``types``; ``faults`` and ``prices`` may be set at any time.

        The ``notice`` is kept up to date while the provider runs.
        """
        self.faults: Final = Faults(clock) if faults is None else faults
        self.prices: Final = Prices() if prices is None else prices
        self.interruptions: Final = Interruptions(kube, clock, decisions)
        self._notice = notice
        self._kube = kube
        self._clock = clock
        self._types = types
        self._facts = catalogue.facts_about(types)
        self._names = frozenset(kind.name for kind in types)
        self._arrivals = Arrivals(kube, clock)
        self._reservations = Reservations(kube, self._arrivals, types)
        self._images: dict[str, tuple[float, str]] = {}  # node class -> when it was read, and what
        self._choosing = asyncio.Lock()  # two launches must not take the same slot of a reservation

    @property
    def facts(self) -> ProviderFacts:
        return self._facts

    @property
    def repair_policies(self) -> Sequence[RepairPolicy]:
        return REPAIR_POLICIES

    @property
    def registration_hooks(self) -> Sequence[RegistrationHook]:
        return ()

    async def create(self, claim: NodeClaim) -> Instance:
        name = node_name_of(claim)
        promised = await self._promised(name)
        if promised is not None:
            return promised
        await self.faults.strike()
        listed = listed_types(claim, self._names)
        node_class = await self._node_class(claim.spec.node_class_ref.name)
        self._discover_sold_out(node_class)
        async with self._choosing:
            node_class_name = node_class.metadata.name
            shown = {kind.name: kind for kind in await self._shown(node_class_name)}
            kind, offering = choose(
                claim, [shown[name] for name in listed], self._facts.well_known_labels
            )
            machine = machine_for(claim, kind, offering, image_of(node_class.metadata.annotations))
            self._arrivals.expect(machine, after=registration_delay(node_class))
        return machine.instance(self._clock.now())

    async def delete(self, claim: NodeClaim) -> None:
        name = node_name_of(claim)
        self._arrivals.call_off(name)
        await remove_node(self._kube, name)
        raise InstanceNotFoundError(f"instance {PROVIDER_PREFIX}{name} is terminated")

    async def get(self, provider_id: str) -> Instance:
        name = provider_id.removeprefix(PROVIDER_PREFIX)
        try:
            node = await self._kube.get(Node, name)
        except NotFoundError as error:
            raise InstanceNotFoundError(f"there is no instance {provider_id}") from error
        if node.metadata.deletion_timestamp is not None:
            raise InstanceNotFoundError(f"instance {provider_id} is being terminated")
        return instance_of(node)

    async def list(self) -> Sequence[Instance]:
        nodes = await self._kube.list(Node)
        return [instance_of(n) for n in nodes if n.spec.provider_id.startswith(PROVIDER_PREFIX)]

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        return await self._shown(pool.spec.template.spec.node_class_ref.name)

    def exclude_sold_out(self, node_classes: Iterable[object]) -> None:
        """Load what node classes declare sold out, which otherwise only failed launches discover.

        Raises:
            CreateError: what one of them declares cannot be read; the others are known.
        """
        unreadable: CreateError | None = None
        for each in node_classes:
            if isinstance(each, KWOKNodeClass):
                try:
                    self.faults.sell_out(
                        *_read(each, declared_sold_out), node_class=each.metadata.name
                    )
                except CreateError as error:
                    unreadable = error
        if unreadable is not None:
            raise unreadable

    def catalogue_difference(self, node_classes: Iterable[object]) -> str:
        """A warning if the controller uses an instance-types file and this process does not."""
        if self._types is not catalogue.built_in():
            return ""
        annotations = (n.metadata.annotations for n in node_classes if isinstance(n, KWOKNodeClass))
        files = sorted({held[INSTANCE_TYPES] for held in annotations if held.get(INSTANCE_TYPES)})
        if not files:
            return ""
        return (
            f"the controller chooses from the machines of {files[0]}, and this is planned with the"
            " built-in ones; name that file with --instance-types"
        )

    async def drift_reason(self, claim: NodeClaim) -> str:
        wanted = await self._image(claim.spec.node_class_ref.name)
        launched_with = image_of(claim.metadata.annotations)
        return "" if wanted is None or wanted == launched_with else IMAGE_DRIFT

    async def _image(self, node_class: str) -> str | None:
        """The image of a node class, which may have changed a few seconds ago."""
        now = self._clock.monotonic()
        known = self._images.get(node_class)
        if known is None or now - known[0] > _IMAGE_SECONDS:
            try:
                found = await self._kube.get(KWOKNodeClass, node_class)
            except NotFoundError:
                return None
            known = self._images[node_class] = (now, image_of(found.metadata.annotations))
        return known[1]

    async def reboot(self, claim: NodeClaim, operation: str) -> None:
        name = claim.status.node_name
        if not name:
            raise CloudError(f"claim {claim.metadata.name} has no node to restart")
        try:
            node = await self._kube.get(Node, name)
        except NotFoundError as error:
            raise InstanceNotFoundError(f"there is no node {name} to restart") from error
        boot = f"kwok-{operation}"
        if node.status.node_info.boot_id != boot:
            body = {"status": {"nodeInfo": {"bootID": boot}}}
            await self._kube.patch(Node, name, body, subresource="status")

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._arrivals.run())
            tasks.create_task(self.interruptions.run())
            if self._notice is not None:
                tasks.create_task(self._notice.run())

    async def _shown(self, node_class: str) -> tuple[InstanceType, ...]:
        priced = self.prices.show(self._types)
        return await self._reservations.show(self.faults.show(priced, node_class))

    async def _promised(self, name: str) -> Instance | None:
        """The instance that an earlier call launched, even in a process that has died since."""
        coming = self._arrivals.expected(name)
        if coming is not None:
            return coming.instance(self._clock.now())
        try:
            node = await self._kube.get(Node, name)
        except NotFoundError:
            return None
        if node.metadata.deletion_timestamp is not None:
            raise CreateError(LAUNCH_FAILED, f"node {name} of this claim is being deleted")
        return instance_of(node)

    async def _node_class(self, name: str) -> KWOKNodeClass:
        try:
            node_class = await self._kube.get(KWOKNodeClass, name)
        except NotFoundError as error:
            raise InsufficientCapacityError(f"there is no KWOKNodeClass {name}") from error
        ready = find(node_class.status.conditions, READY)
        if ready is not None and ready.status == FALSE:
            why = f": {ready.message}" if ready.message else ""
            raise NodeClassNotReadyError(f"KWOKNodeClass {name} is not ready{why}")
        return node_class

    def _discover_sold_out(self, node_class: KWOKNodeClass) -> None:
        """Cache what the node class declares sold out, as a failed launch does."""
        name = node_class.metadata.name
        self.faults.sell_out(*_read(node_class, declared), lasts=REMEMBERED, node_class=name)


_Reader: TypeAlias = Callable[[Mapping[str, str], str], tuple[OfferingPattern, ...]]


def _read(node_class: KWOKNodeClass, reader: _Reader) -> tuple[OfferingPattern, ...]:
    try:
        return reader(node_class.metadata.annotations, node_class.metadata.name)
    except PatternError as error:
        raise CreateError(LAUNCH_FAILED, str(error)) from error


def make_provider(context: ProviderContext) -> KwokProvider:
    """Make the provider from the settings of the environment.

    Raises:
        ProviderError: the instance-types file or a list of sold-out offerings cannot be used.
    """
    types = _types(context.environment)
    try:
        sold_out = declared_everywhere(context.environment)
    except PatternError as error:
        raise ProviderError(str(error)) from error
    file = context.environment.get(INSTANCE_TYPES_FILE_PATH, "")
    annotations = {SOLD_OUT_EVERYWHERE: in_text(sold_out), INSTANCE_TYPES: file}
    notice = Notice(context.kube, context.clock, context.rng, annotations)
    provider = KwokProvider(
        context.kube, context.clock, types, notice=notice, decisions=context.decisions
    )
    provider.faults.sell_out(*sold_out)
    return provider


def _types(environment: Mapping[str, str]) -> tuple[InstanceType, ...]:
    file = environment.get(INSTANCE_TYPES_FILE_PATH, "")
    if not file:
        return catalogue.built_in()
    try:
        return catalogue.load(Path(file).read_bytes(), file)
    except CatalogueError as error:
        raise ProviderError(str(error)) from error
    except OSError as error:
        raise ProviderError(f"{file}: {os_reason(error)}") from error

"""The constraints that a pod's volumes put on its node.

A bound claim ties the pod to the nodes that can attach its volume. A claim that waits for its first
consumer is bound to an available volume or provisioned once a node is chosen, so it only requires
that this is possible there. In any other state of a claim the pod is rejected for all nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from karpenter.api.meta import JsonObject
from karpenter.model.quantity import units
from karpenter_sandbox.matching import (
    NodeTerm,
    Requirement,
    Selector,
    any_term_holds,
    read_node_terms,
    read_selector,
)
from karpenter_sandbox.scheduling import wording
from karpenter_sandbox.scheduling.nodes import NodeFacts, NodeState
from karpenter_sandbox.scheduling.shapes import PodInfo
from karpenter_sandbox.scheduling.wording import Failure

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_ONE_POD: Final = "ReadWriteOncePod"
_ZONE_LABELS: Final = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_ZONE_DELIMITER: Final = "__"


class StorageView(Protocol):
    """Where claims, volumes and storage classes are read."""

    def claim(self, namespace: str, name: str) -> JsonObject | None: ...
    def volume(self, name: str) -> JsonObject | None: ...
    def volumes(self) -> list[JsonObject]: ...
    def storage_class(self, name: str) -> JsonObject | None: ...
    def pods_using(self, namespace: str, claim: str) -> int: ...


@dataclass(frozen=True, slots=True)
class Place:
    """Nodes from which a volume can be reached; no terms means all of them."""

    volume: str
    terms: tuple[NodeTerm, ...] | None

    def holds(self, facts: NodeFacts) -> bool:
        """Whether a node is such a node."""
        return any_term_holds(self.terms, facts.name, facts.labels)


@dataclass(frozen=True, slots=True)
class Pending:
    """A claim that is bound or provisioned once a node is chosen."""

    claim: str
    available: tuple[Place, ...]  # volumes it could be bound to, the best first
    is_provisioned: bool
    topologies: tuple[NodeTerm, ...] | None  # where it can be provisioned


@dataclass(frozen=True, slots=True)
class VolumeNeeds:
    """All that a pod's volumes ask for; equal for pods that ask the same."""

    problem: str = ""  # why the pod is rejected for all nodes
    bound: tuple[Place, ...] = ()
    zones: tuple[Requirement, ...] = ()
    pending: tuple[tuple[tuple[Place, ...], bool, tuple[NodeTerm, ...] | None], ...] = ()
    attached: tuple[tuple[str, str], ...] = ()  # volume, or "" for one still to come, and driver
    is_in_use: bool = False

    def failure(self, node: NodeState) -> Failure | None:
        """Why the volumes keep the pod from a node."""
        if self.is_in_use:
            return wording.IN_USE
        if node.limits and self._exceeds(node):
            return wording.VOLUME_COUNT
        facts = node.facts
        reasons = []
        if not all(place.holds(facts) for place in self.bound):
            reasons.append(wording.VOLUME_AFFINITY_REASON)
        if self.pending and not self._can_bind(facts):
            reasons.append(wording.VOLUME_BINDING_REASON)
        if reasons:
            return Failure(tuple(reasons), True)
        if not all(requirement.holds(facts.labels) for requirement in self.zones):
            return wording.VOLUME_ZONE
        return None

    def _exceeds(self, node: NodeState) -> bool:
        coming: dict[str, int] = {}
        for volume, driver in self.attached:
            if volume not in node.volumes:
                coming[driver] = coming.get(driver, 0) + 1
        return any(
            node.drivers.get(driver, 0) + count > node.limits[driver]
            for driver, count in coming.items()
            if driver in node.limits
        )

    def _can_bind(self, facts: NodeFacts) -> bool:
        taken: set[str] = set()
        for available, is_provisioned, topologies in self.pending:
            place = _first_free(available, taken, facts)
            if place is not None:
                taken.add(place.volume)
            elif not (is_provisioned and any_term_holds(topologies, facts.name, facts.labels)):
                return False
        return True


NO_VOLUMES: Final = VolumeNeeds()


def _first_free(available: tuple[Place, ...], taken: set[str], facts: NodeFacts) -> Place | None:
    for place in available:
        if place.volume not in taken and place.holds(facts):
            return place
    return None


class Storage:
    """Works out what pods' volumes ask for."""

    def __init__(self, view: StorageView) -> None:
        self._view = view

    def needs(self, pod: PodInfo) -> VolumeNeeds:
        """What the volumes of a pod ask of its node."""
        if not pod.claims:
            return NO_VOLUMES
        bound: list[Place] = []
        zones: list[Requirement] = []
        in_use = False
        for name in pod.claims:
            claim = self._view.claim(pod.key[0], name)
            if problem := self._problem(name, claim):
                return VolumeNeeds(problem=problem)
            assert claim is not None
            in_use = in_use or self._is_in_use(pod, name, claim)
            if is_bound(claim):
                volume = self._view.volume(claim["spec"]["volumeName"])
                assert volume is not None
                bound.append(_place(volume))
                zones.extend(_zones(volume))
        return VolumeNeeds(
            bound=tuple(place for place in bound if place.terms is not None),
            zones=tuple(zones),
            pending=tuple(
                (wait.available, wait.is_provisioned, wait.topologies) for wait in self.pending(pod)
            ),
            attached=tuple(self._attached(pod)),
            is_in_use=in_use,
        )

    def pending(self, pod: PodInfo) -> list[Pending]:
        """The claims of a pod that wait for its node."""
        waiting = []
        for name in pod.claims:
            claim = self._view.claim(pod.key[0], name)
            if claim is None or is_bound(claim):
                continue
            known = self._class_of(claim) or {}
            provisioner = known.get("provisioner") or _NO_PROVISIONER
            waiting.append(
                Pending(
                    claim=name,
                    available=self._available(claim),
                    is_provisioned=provisioner != _NO_PROVISIONER,
                    topologies=_topologies(known),
                )
            )
        return waiting

    def attached(self, pod: PodInfo) -> tuple[tuple[str, str], ...]:
        """The volumes that a placed pod takes up on its node, each with its driver."""
        return tuple(
            (f"{pod.key[0]}/{name}", driver)
            for name in pod.claims
            if (driver := self._driver(self._view.claim(pod.key[0], name)))
        )

    def choice(self, pod: PodInfo, facts: NodeFacts) -> dict[str, str]:
        """For each claim that waits: the volume to bind on this node, "" to provision one."""
        chosen: dict[str, str] = {}
        for wait in self.pending(pod):
            place = _first_free(wait.available, set(chosen.values()), facts)
            chosen[wait.claim] = place.volume if place is not None else ""
        return chosen

    def _problem(self, name: str, claim: JsonObject | None) -> str:
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if claim.get("status", {}).get("phase") == "Lost":
            volume = claim["spec"].get("volumeName", "")
            return (
                f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
            )
        if "deletionTimestamp" in claim["metadata"]:
            return f'persistentvolumeclaim "{name}" is being deleted'
        if is_bound(claim):
            volume = claim["spec"]["volumeName"]
            missing = self._view.volume(volume) is None
            return f'persistentvolume "{volume}" not found' if missing else ""
        if claim["spec"].get("volumeName") or not self._waits_for_consumer(claim):
            return "pod has unbound immediate PersistentVolumeClaims"
        return ""

    def _waits_for_consumer(self, claim: JsonObject) -> bool:
        known = self._class_of(claim)
        return known is not None and known.get("volumeBindingMode") == "WaitForFirstConsumer"

    def _class_of(self, claim: JsonObject) -> JsonObject | None:
        name = claim["spec"].get("storageClassName") or ""
        return self._view.storage_class(name) if name else None

    def _is_in_use(self, pod: PodInfo, name: str, claim: JsonObject) -> bool:
        modes = claim["spec"].get("accessModes") or ()
        return _ONE_POD in modes and self._view.pods_using(pod.key[0], name) > 0

    def _attached(self, pod: PodInfo) -> list[tuple[str, str]]:
        volumes = []
        for name in pod.claims:
            claim = self._view.claim(pod.key[0], name)
            if claim is not None and (driver := self._driver(claim)):
                # an unbound volume is attached nowhere; its name would only split the class
                volumes.append((f"{pod.key[0]}/{name}" if is_bound(claim) else "", driver))
        return volumes

    def _driver(self, claim: JsonObject | None) -> str:
        if claim is None:
            return ""
        volume = self._view.volume(claim["spec"].get("volumeName") or "")
        if volume is not None:
            driver: str = (volume["spec"].get("csi") or {}).get("driver") or ""
            return driver
        provisioner: str = (self._class_of(claim) or {}).get("provisioner") or ""
        return "" if provisioner == _NO_PROVISIONER else provisioner

    def _available(self, claim: JsonObject) -> tuple[Place, ...]:
        wanted = claim["spec"]
        selector = read_selector(wanted["selector"]) if wanted.get("selector") else None
        fitting = [
            volume
            for volume in self._view.volumes()
            if _is_free(volume, claim) and _suits(volume, wanted, selector)
        ]
        fitting.sort(key=lambda volume: (_capacity(volume["spec"]), volume["metadata"]["name"]))
        return tuple(_place(volume) for volume in fitting)


def is_bound(claim: JsonObject) -> bool:
    """Whether a claim has its volume for good."""
    annotations = claim["metadata"].get("annotations") or {}
    return bool(claim["spec"].get("volumeName")) and (
        BIND_COMPLETED in annotations or claim.get("status", {}).get("phase") == "Bound"
    )


def volume_limits(csi_node: JsonObject) -> Mapping[str, int]:
    """How many volumes each driver of a ``CSINode`` can attach."""
    limits = {}
    for driver in csi_node.get("spec", {}).get("drivers") or ():
        count = (driver.get("allocatable") or {}).get("count")
        if count is not None:
            limits[driver["name"]] = count
    return limits


def _place(volume: JsonObject) -> Place:
    affinity = volume["spec"].get("nodeAffinity") or {}
    return Place(volume["metadata"]["name"], read_node_terms(affinity.get("required")))


def _zones(volume: JsonObject) -> list[Requirement]:
    labels = volume["metadata"].get("labels") or {}
    return [
        Requirement(key, "In", tuple(labels[key].split(_ZONE_DELIMITER)))
        for key in _ZONE_LABELS
        if key in labels
    ]


def _topologies(storage_class: JsonObject) -> tuple[NodeTerm, ...] | None:
    allowed = storage_class.get("allowedTopologies")
    if not allowed:
        return None
    return tuple(
        NodeTerm(
            tuple(
                Requirement(expression["key"], "In", tuple(expression.get("values") or ()))
                for expression in term.get("matchLabelExpressions") or ()
            ),
            (),
        )
        for term in allowed
    )


def _is_free(volume: JsonObject, claim: JsonObject) -> bool:
    reference = volume["spec"].get("claimRef")
    if reference:
        metadata = claim["metadata"]
        return (reference.get("namespace"), reference.get("name")) == (
            metadata.get("namespace"),
            metadata["name"],
        ) and reference.get("uid", metadata.get("uid")) == metadata.get("uid")
    return bool(volume.get("status", {}).get("phase", "Available") == "Available")


def _suits(volume: JsonObject, wanted: JsonObject, selector: Selector | None) -> bool:
    offered = volume["spec"]
    if (offered.get("storageClassName") or "") != (wanted.get("storageClassName") or ""):
        return False
    if (offered.get("volumeMode") or "Filesystem") != (wanted.get("volumeMode") or "Filesystem"):
        return False
    if not set(wanted.get("accessModes") or ()) <= set(offered.get("accessModes") or ()):
        return False
    if selector is not None and not selector.matches(volume["metadata"].get("labels") or {}):
        return False
    request = (wanted.get("resources") or {}).get("requests", {}).get("storage", 0)
    return _capacity(offered) >= units(request)


def _capacity(spec: JsonObject) -> int:
    return units((spec.get("capacity") or {}).get("storage", 0))

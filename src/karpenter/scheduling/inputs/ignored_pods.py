"""Pods that a pass ignores, and why.

A pod may not be waiting for a node at all, or it may ask for something no pool could ever provide.
The first kind is not reported; the second is counted as ignored and gets an event, unless the pod
itself opts out of managed nodes.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias


class WhyIgnored(StrEnum):
    """Why a pass ignores a pod."""

    # It does not wait for a node
    ALREADY_BOUND = "AlreadyBound"
    DAEMON_SET_POD = "DaemonSetPod"
    MIRROR_POD = "MirrorPod"
    NOMINATED = "Nominated"
    NOT_UNSCHEDULABLE = "NotUnschedulable"

    # It opts out of managed nodes
    OPTED_OUT = "OptedOut"

    # It constrains its node in an unsupported way
    INVALID_REQUIREMENT = "InvalidRequirement"
    MATCH_FIELDS_UNSUPPORTED = "MatchFieldsUnsupported"
    RESTRICTED_LABEL = "RestrictedLabel"
    UNKNOWN_CAPACITY_TYPE = "UnknownCapacityType"

    # Its volumes are not ready, or not supported
    CLAIM_NOT_FOUND = "PersistentVolumeClaimNotFound"
    CLAIM_DELETING = "PersistentVolumeClaimDeleting"
    CLAIM_LOST = "PersistentVolumeClaimLost"
    CLAIM_BINDING_INCOMPLETE = "PersistentVolumeClaimBindingIncomplete"
    VOLUME_NOT_FOUND = "PersistentVolumeNotFound"
    VOLUME_DELETING = "PersistentVolumeDeleting"
    NO_STORAGE_CLASS = "StorageClassNotNamed"
    STORAGE_CLASS_NOT_FOUND = "StorageClassNotFound"
    IMMEDIATE_BINDING = "ImmediateBinding"
    UNSUPPORTED_VOLUME_TOPOLOGY = "UnsupportedVolumeTopology"
    UNSUPPORTED_VOLUME_DRIVER = "UnsupportedVolumeDriver"


Objection: TypeAlias = tuple[WhyIgnored, str]  # why, and the same in one sentence

_NOT_WAITING: Final = frozenset(
    {
        WhyIgnored.ALREADY_BOUND,
        WhyIgnored.DAEMON_SET_POD,
        WhyIgnored.MIRROR_POD,
        WhyIgnored.NOMINATED,
        WhyIgnored.NOT_UNSCHEDULABLE,
    }
)


@dataclass(frozen=True, slots=True)
class Ignored:
    """A pod that a pass ignores."""

    pod: str  # "namespace/name"
    why: WhyIgnored
    detail: str

    @property
    def is_refused(self) -> bool:
        """Whether the pod waits for a node and was refused; the gauge counts these."""
        return self.why not in _NOT_WAITING

    @property
    def has_event(self) -> bool:
        """Whether the pod gets a ``FailedScheduling`` event."""
        return self.is_refused and self.why is not WhyIgnored.OPTED_OUT

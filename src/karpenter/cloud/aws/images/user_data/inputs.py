"""What every family's boot script is made from, whatever its language."""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from karpenter.api.nodes import Taint
from karpenter.model import labels
from karpenter.model.taints import UNREGISTERED, matches

# The kubelet refuses to start with labels of its own node in these domains
_RESERVED_DOMAINS: Final = ("kubernetes.io", "k8s.io", "node-restriction.kubernetes.io")


class UserDataError(ValueError):
    """User data that cannot be merged with ours; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class BootInputs:
    """The inputs of a boot script, before it is written in the format of a family."""

    cluster_name: str
    endpoint: str
    ca_bundle: str = ""  # base64
    cluster_dns: str = ""  # as discovered; ``clusterDNS`` of the kubelet settings takes precedence
    service_cidr: str = ""
    kubelet: Mapping[str, Any] = field(default_factory=dict)  # maxPods and reservations resolved
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    user_data: str = ""
    is_raid0: bool = False
    image_version: str = ""  # of Bottlerocket; empty when unknown

    @property
    def dns_addresses(self) -> tuple[str, ...]:
        """The DNS servers of pods."""
        chosen = tuple(str(address) for address in self.kubelet.get("clusterDNS") or ())
        return chosen or ((self.cluster_dns,) if self.cluster_dns else ())

    @property
    def is_ipv6(self) -> bool:
        """Whether the cluster uses IPv6.

        Decided by the address of its DNS service, or by the service CIDR. The node class's own DNS
        address counts only if neither is known: a node-local DNS cache may have an address of
        either family.
        """
        services, _, _ = self.service_cidr.partition("/")
        addresses = (self.cluster_dns, services, *self.dns_addresses)
        return is_ipv6(next(filter(None, addresses), ""))


@dataclass(frozen=True, slots=True)
class UserData:
    """A boot script, and the user's settings that it does not support."""

    text: str
    ignored: tuple[str, ...] = ()


def boot_labels(claimed: Mapping[str, str], *, capacity_type: str, syncs: bool) -> dict[str, str]:
    """The labels a kubelet registers with.

    Args:
        claimed: the labels of the NodeClaim.
        capacity_type: what this launch asks for.
        syncs: whether Karpenter has to write the taints itself, as with custom images.
    """
    held = {**claimed, labels.CAPACITY_TYPE: capacity_type}
    if not syncs:
        held[labels.DO_NOT_SYNC_TAINTS] = "true"
    return {key: held[key] for key in sorted(held) if not _is_reserved(key)}


def boot_taints(*given: Iterable[Taint]) -> tuple[Taint, ...]:
    """The taints a kubelet registers with, the one that keeps pods away until then included."""
    taints = [taint for each in given for taint in each]
    if not any(matches(taint, UNREGISTERED) for taint in taints):
        taints.append(UNREGISTERED)
    return tuple(sorted(taints, key=lambda taint: (taint.key, taint.effect, taint.value)))


def is_ipv6(address: str) -> bool:
    """Whether an address is one of IPv6; what is no address at all is not."""
    try:
        return ipaddress.ip_address(address).version == 6
    except ValueError:
        return False


def _is_reserved(key: str) -> bool:
    domain = labels.domain_of(key)
    return any(domain == each or domain.endswith(f".{each}") for each in _RESERVED_DOMAINS)

"""The ResourceClaims of pods: their names, which pods share them, and whether they are allocated.

A pod names a claim directly, or has one made from a template; its status holds that claim's name. A
claim that only departing pods hold counts as unallocated: it will be allocated again, elsewhere,
and the devices it holds now are free.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from karpenter.api.devices import ResourceClaim
from karpenter.api.pods import Pod
from karpenter.scheduling.compiled.fingerprints import fingerprint


class Standing(Enum):
    """The state of a claim of a pod."""

    MISSING = "missing"  # it should exist and does not
    SERVED = "served"  # it has its devices
    SHARED = "shared"  # it needs devices, and other pods of the pass need the same ones
    OWN = "own"  # it needs devices, for this pod alone


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim of a pod."""

    entry: str  # its name in the pod's spec
    key: str  # "namespace/name" of the object
    standing: Standing
    claim: ResourceClaim | None  # None when it is missing


class ClaimDirectory:
    """The claims of a cluster, seen from the pods that are to be placed."""

    def __init__(self, claims: Iterable[ResourceClaim], pods: Sequence[Pod]) -> None:
        """Determine which claims the pods share, and which are released with them."""
        self._by_key = {_key(c.metadata.namespace, c.metadata.name): c for c in claims}
        concerned = pods if self._by_key else ()
        self._users = Counter(
            key for pod in concerned if pod.spec.resource_claims for key in _names_of(pod)
        )
        self._departing = {
            pod.metadata.uid for pod in concerned if pod.spec.node_name and pod.metadata.uid
        }

    def of(self, pod: Pod) -> list[PodClaim]:
        """The claims of a pod that exist, or should."""
        return [self._pod_claim(key, entry) for key, entry in _names_of(pod).items()]

    def identity(self, pod: Pod) -> tuple[tuple[str, bytes], ...]:
        """Equal for pods with equivalent claims: their own ones may differ in name."""
        return tuple(
            (found.standing.value, fingerprint(found.claim.spec))
            if found.standing is Standing.OWN and found.claim is not None
            else (found.standing.value, found.key.encode())
            for found in self.of(pod)
        )

    def served(self) -> Iterator[ResourceClaim]:
        """Yield the claims that have devices and keep them, sorted by name."""
        for key in sorted(self._by_key):
            if self._is_served(self._by_key[key]):
                yield self._by_key[key]

    def _pod_claim(self, key: str, entry: str) -> PodClaim:
        claim = self._by_key.get(key)
        if claim is None:
            return PodClaim(entry, key, Standing.MISSING, None)
        if self._is_served(claim):
            return PodClaim(entry, key, Standing.SERVED, claim)
        shared = self._users[key] > 1
        return PodClaim(entry, key, Standing.SHARED if shared else Standing.OWN, claim)

    def _is_served(self, claim: ResourceClaim) -> bool:
        if claim.status.allocation is None:
            return False
        users = claim.status.reserved_for
        return not users or any(
            user.resource != "pods" or user.uid not in self._departing for user in users
        )


def _names_of(pod: Pod) -> dict[str, str]:
    """The claims a pod needs, with their names in its spec.

    A claim that the status does not name is not needed, or not created yet.
    """
    made = {entry.name: entry.resource_claim_name for entry in pod.status.resource_claim_statuses}
    found: dict[str, str] = {}
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name or made.get(entry.name)
        if name:
            found.setdefault(_key(pod.metadata.namespace, name), entry.name)
    return found


def _key(namespace: str, name: str) -> str:
    return f"{namespace or 'default'}/{name}"

"""The hash of a pool's template, by which nodes are known to have been made from an older one.

Only equality counts, and only between hashes of one version: raise the version whenever the same
pool would hash differently. Lists are compared as sets, durations by their length (``60m`` is
``1h``), and what is empty counts as absent.
Requirements are not hashed; whether a node still meets them is asked of the node itself.
"""

import hashlib
from typing import Final

import msgspec

from karpenter.admission.durations import go_duration
from karpenter.api.karpenter import NodePool
from karpenter.api.nodes import Taint

# Not Karpenter's "v3": the values differ, and a cluster that is taken over from it must be stamped
# anew instead of having every node replaced
NODEPOOL_HASH_VERSION: Final = "v3-py1"

_canonical: Final = msgspec.json.Encoder(order="deterministic")


def node_pool_hash(node_pool: NodePool) -> str:
    """Hash what makes a node of the pool drift when it changes."""
    template = node_pool.spec.template
    parts = {
        "labels": dict(template.metadata.labels),
        "annotations": dict(template.metadata.annotations),
        "taints": _as_set(template.spec.taints),
        "startupTaints": _as_set(template.spec.startup_taints),
        "nodeClassRef": template.spec.node_class_ref,
        "expireAfter": _length(template.spec.expire_after),
        "terminationGracePeriod": _length(template.spec.termination_grace_period),
    }
    text = _canonical.encode({name: part for name, part in parts.items() if part})
    return str(int.from_bytes(hashlib.sha256(text).digest()[:8]))


def _length(duration: str | None) -> int | str | None:
    length = go_duration(duration) if duration else None
    return duration if length is None else length


def _as_set(taints: tuple[Taint, ...]) -> list[bytes]:
    return sorted({_canonical.encode(taint) for taint in taints})

"""Notices: what a page has to say above everything, because figures depend on it."""

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import kind_of
from karpenter.dashboard.contract import Notice
from karpenter.dashboard.sources import Followed
from karpenter.decision_log.record import moment_text
from karpenter.kube.errors import NotFoundError
from karpenter.state.snapshot import Snapshot

_INSTALL = "karpenter crds | kubectl apply --server-side -f -"


def notices_of(followed: Followed, snapshot: Snapshot, *, has_prices: bool) -> tuple[Notice, ...]:
    """What holds of a cluster now, the most important first."""
    found = [*_lost(followed), *_unreadable(followed)]
    unserved = [
        kind_of(kind)
        for kind in (NodePool, NodeClaim)
        if kind in followed.trouble and isinstance(followed.trouble[kind].error, NotFoundError)
    ]
    if unserved:
        found.append(
            Notice(
                kind="no-crds",
                text=f"The cluster does not serve {' and '.join(unserved)}: the custom resource"
                " definitions are not installed.",
                severity="warning",
                objects=unserved,
                command=_INSTALL,
            )
        )
    elif not snapshot.node_pools:
        found.append(
            Notice(
                kind="no-pools",
                text="There is no NodePool, so waiting pods get no new nodes.",
                command="kubectl get nodepools",
            )
        )
    elif not has_prices:
        found.append(
            Notice(
                kind="no-prices",
                text="No prices are known for the machines of these NodePools, so costs are"
                " missing.",
            )
        )
    if not (snapshot.nodes or snapshot.unlaunched or snapshot.skipped_nodes):
        found.append(Notice(kind="no-nodes", text="There are no nodes."))
    return tuple(found)


def _lost(followed: Followed) -> list[Notice]:
    """Whether the connection to the cluster is lost."""
    lost = [each for each in followed.trouble.values() if not each.is_refused]
    if not lost:
        return []
    first = min(lost, key=lambda trouble: trouble.since)
    return [
        Notice(
            kind="lost",
            text="The API server cannot be reached; what is shown is as of the time it was lost.",
            severity="warning",
            since=moment_text(first.since),
        )
    ]


def _unreadable(followed: Followed) -> list[Notice]:
    """Which kinds may not be read."""
    kinds = sorted(
        kind_of(kind)
        for kind in followed.refused()
        if not isinstance(followed.trouble[kind].error, NotFoundError)
    )
    if not kinds:
        return []
    return [
        Notice(
            kind="unreadable",
            text=f"{', '.join(kinds)} may not be read, so what depends on them is missing.",
            severity="warning",
            objects=kinds,
        )
    ]

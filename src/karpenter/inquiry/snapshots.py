"""Objects to the cluster that plans are made for, of files and of a running cluster."""

from collections.abc import Collection, Iterable, Sequence

from karpenter.api.karpenter import NodePool
from karpenter.api.meta import Resource
from karpenter.api.pods import Pod
from karpenter.api.policy import PodDisruptionBudget
from karpenter.inquiry.expected_status import settled_files, settled_pool, with_marks
from karpenter.inquiry.overlay import Overlay
from karpenter.inquiry.pdb_status import judged
from karpenter.state.cluster import snapshot_of
from karpenter.state.object_keys import key_of
from karpenter.state.snapshot import Snapshot


def snapshot_of_files(objects: Iterable[Resource], unjudged: Collection[str]) -> Snapshot:
    """The cluster of manifests, as its controllers would have left it.

    Args:
        objects: what the manifests expand to.
        unjudged: the disruption budgets, as namespace/name, that came without a status.
    """
    return with_marks(snapshot_of(settled_files(objects, unjudged)))


def snapshot_of_cluster(objects: Iterable[Resource], *, has_old_keys: bool) -> Snapshot:
    """A running cluster; ``has_old_keys``: it has Provisioners, so that labels may be old ones."""
    settled = (settled_pool(each) if isinstance(each, NodePool) else each for each in objects)
    snapshot = with_marks(snapshot_of(settled))
    if not has_old_keys:
        return snapshot
    from karpenter.scheduling.inputs.legacy_keys import in_current_keys

    return in_current_keys(snapshot)


def with_judged_budgets(after: Overlay) -> Sequence[Resource]:
    """The objects of a running cluster after a change, whose disruption budgets are judged anew."""
    if not after.budgets:
        return after.objects
    pods = [each for each in after.objects if isinstance(each, Pod)]
    return [
        judged(each, pods)
        if isinstance(each, PodDisruptionBudget) and key_of(each) in after.budgets
        else each
        for each in after.objects
    ]

"""The roles of the installation are those that are listed here, and not one verb more.

That each of these is used, and nothing else, is for the runs of ``tests/integration/promises/test_roles.py``
to show; that a real API server refuses nothing of it, for the walks on one.
"""

import pytest

from helpers.real_cluster import ACCOUNT, NAMESPACE
from helpers.rights import AWS, CORE, OPTIONAL, Json, Right, documents, granted
from karpenter.webhook.trust import DEFAULTING, DEFINITIONS, VALIDATION

LOOK = "list watch"
READ = f"get {LOOK}"
MEANT = {
    "rbac": {
        "karpenter.sh: nodepools": f"{READ} patch",
        "karpenter.sh: nodeclaims": f"{READ} create patch delete",
        "karpenter.sh: nodepools/status nodeclaims/status": "patch",
        "karpenter.sh: nodepools/finalizers nodeclaims/finalizers": "update",
        ": nodes": f"{READ} create patch delete",
        ": pods": f"{LOOK} delete",
        ": pods/eviction": "create",
        ": persistentvolumes persistentvolumeclaims replicationcontrollers": LOOK,
        ": namespaces services": LOOK,
        ": events": "create patch",
        "storage.k8s.io: storageclasses csinodes volumeattachments": LOOK,
        "apps: daemonsets deployments replicasets statefulsets": LOOK,
        "policy: poddisruptionbudgets": LOOK,
        "karpenter.kwok.sh: kwoknodeclasses": f"{READ} patch",
        "coordination.k8s.io: leases": "get create patch",
    },
    "rbac-aws": {
        "karpenter.k8s.aws: ec2nodeclasses": f"{READ} patch",
        "karpenter.k8s.aws: ec2nodeclasses/status": "patch",
        "networking.k8s.io: servicecidrs": "get",
        ": services": "get",
    },
    "capacity-buffer": {
        "autoscaling.x-k8s.io: capacitybuffers": LOOK,
        "autoscaling.x-k8s.io: capacitybuffers/status": "patch",
        ": podtemplates": LOOK,
    },
    "commitment": {
        "cost.karpenter.sh: commitments": LOOK,
        "cost.karpenter.sh: commitments/status": "patch",
    },
    "dashboard-kinds": {
        ": events podtemplates": LOOK,
        "batch: jobs": LOOK,
        "karpenter.sh: nodeoverlays": LOOK,
        "autoscaling.x-k8s.io: capacitybuffers": LOOK,
        "karpenter.k8s.aws: ec2nodeclasses": LOOK,
        "karpenter.kwok.sh: kwoknodeclasses": LOOK,
    },
    "devices": {
        "resource.k8s.io: resourceclaims resourceclaimtemplates": LOOK,
        "resource.k8s.io: resourceslices deviceclasses": LOOK,
    },
    "early-binding": {": pods/binding": "create"},
    "legacy-kinds": {
        "karpenter.sh: provisioners": LOOK,
        "karpenter.sh: provisioners/status": "patch",
        "karpenter.sh: provisioners/finalizers": "update",
        "karpenter.sh: nodepools": "create",
        "karpenter.k8s.aws: awsnodetemplates": LOOK,
        "karpenter.k8s.aws: awsnodetemplates/finalizers": "update",
        "karpenter.kwok.sh: kwoknodeclasses": "create patch delete",
    },
    "legacy-kinds-aws": {"karpenter.k8s.aws: ec2nodeclasses": "create delete"},
    "node-overlay": {
        "karpenter.sh: nodeoverlays": LOOK,
        "karpenter.sh: nodeoverlays/status": "patch",
    },
    "node-repair-kwok": {": nodes/status": "patch"},
    "pod-deletion-cost": {": pods": "patch"},
    "spot-history": {": configmaps": "get create patch"},
    "webhook": {
        ": secrets": "get create patch",
        "apiextensions.k8s.io: customresourcedefinitions": "get patch",
        "admissionregistration.k8s.io: mutatingwebhookconfigurations": "get patch",
        "admissionregistration.k8s.io: validatingwebhookconfigurations": "get patch",
    },
}
FILES = {path.stem: path for path in (CORE, AWS, *OPTIONAL.iterdir())}
# Aggregated into the admin role of the cluster; not bound by the installation
OF_ADMINS = {"karpenter-admin", "karpenter-aws-admin"}
# Rights to single objects
NAMED = {
    ("karpenter", ("get", "patch"), ("karpenter-leader-election",)),
    ("karpenter-spot-history", ("get", "patch"), ("karpenter-spot-history",)),
    ("karpenter-aws", ("get",), ("kubernetes",)),
    ("karpenter-aws-dns", ("get",), ("kube-dns",)),
    ("karpenter-webhook", ("get", "create", "patch"), ("karpenter-webhook-cert",)),
    ("karpenter-webhook", ("get", "patch"), DEFINITIONS),
    ("karpenter-webhook", ("get", "patch"), (DEFAULTING,)),
    ("karpenter-webhook", ("get", "patch"), (VALIDATION,)),
}


def meant(table: dict[str, str]) -> set[Right]:
    """Group, resource and verb of everything in a table."""
    return {
        (line.partition(": ")[0], resource, verb)
        for line, verbs in table.items()
        for resource in line.partition(": ")[2].split()
        for verb in verbs.split()
    }


@pytest.mark.parametrize("name", sorted(FILES))
def test_the_controller_may_do_what_is_listed(name: str) -> None:
    assert meant(MEANT[name]) == granted(FILES[name])


@pytest.mark.parametrize("name", sorted(FILES))
def test_roles_are_bound_to_the_controller_and_to_nobody_else(name: str) -> None:
    found = list(documents(FILES[name]))
    bindings = [each for each in found if "roleRef" in each]
    roles = {each["metadata"]["name"] for each in found if "rules" in each}

    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    assert [[subject]] * len(bindings) == [binding["subjects"] for binding in bindings]
    assert roles - {binding["roleRef"]["name"] for binding in bindings} <= OF_ADMINS


def test_rights_to_single_objects_are_for_these() -> None:
    rules = [
        (each["metadata"]["name"], rule)
        for each in documents(*FILES.values())
        for rule in each.get("rules", ())
    ]

    assert NAMED == {
        (name, tuple(rule["verbs"]), tuple(rule["resourceNames"]))
        for name, rule in rules
        if "resourceNames" in rule
    }


def test_no_role_lets_anything_be_replaced_or_escalated() -> None:
    """Everything is patched; nothing writes roles, secrets or the specification of pods.

    The webhook's one Secret is excused, and the ConfigMap that keeps the history of spot; their
    names are among the rights to single objects, but for the right to create a ConfigMap.
    """
    webhook = [rule for each in documents(FILES["webhook"]) for rule in each.get("rules", ())]
    assert all("resourceNames" in rule for rule in webhook)
    history = [rule for each in documents(FILES["spot-history"]) for rule in each.get("rules", ())]
    assert [["create"]] == [rule["verbs"] for rule in history if "resourceNames" not in rule]
    rights = granted(*FILES.values()) - granted(FILES["webhook"], FILES["spot-history"])
    forbidden: list[Json] = [
        {"right": right}
        for right in rights
        if (right[2] == "update" and not right[1].endswith("/finalizers"))
        or right[0] == "rbac.authorization.k8s.io"
        or right[1] in ("secrets", "configmaps", "serviceaccounts", "pods/exec")
        or "*" in right
    ]

    assert [] == forbidden

"""The roles of the installation are those that operators know, and not one verb more."""

from collections.abc import Iterable
from typing import Any

import yaml

from real_cluster import ACCOUNT, NAMESPACE, RBAC

READ = "get list watch"
CORE = {
    "karpenter.sh: nodepools nodepools/status nodeclaims nodeclaims/status": READ,
    "karpenter.sh: nodeoverlays nodeoverlays/status": READ,
    "karpenter.sh: nodeclaims nodeclaims/status nodeclaims/finalizers": "create delete update patch",
    "karpenter.sh: nodepools nodepools/status nodepools/finalizers": "update patch",
    "karpenter.sh: nodeoverlays/status": "update patch",
    "autoscaling.x-k8s.io: capacitybuffers capacitybuffers/status": f"{READ} update patch",
    ": pods nodes persistentvolumes persistentvolumeclaims replicationcontrollers": READ,
    ": namespaces podtemplates services": READ,
    ": nodes": "patch delete update",
    ": pods/eviction": "create",
    ": pods": "delete patch update",
    ": events": "create patch",
    "storage.k8s.io: storageclasses csinodes volumeattachments": READ,
    "apps: daemonsets deployments replicasets statefulsets": READ,
    "policy: poddisruptionbudgets": READ,
    "autoscaling.k8s.io: verticalpodautoscalers": READ,
    "apiextensions.k8s.io: customresourcedefinitions": "list watch",
}
PROVIDER = {
    "karpenter.kwok.sh: kwoknodeclasses": f"{READ} patch update",
    "karpenter.kwok.sh: kwoknodeclasses/status": "patch update",
    ": nodes": "create",
    ": nodes/status": "patch",
}
LEASE = {"coordination.k8s.io: leases": "get watch create"}
OWN_LEASE = {"coordination.k8s.io: leases": "patch update"}
UNBOUND = {
    "karpenter-admin",
    "karpenter-devices",
    "karpenter-early-binding",
    "karpenter-legacy-kinds",
}

Json = dict[str, Any]


def documents() -> list[Json]:
    return list(yaml.safe_load_all(RBAC.read_text("utf-8")))


def rules_of(kind: str, name: str) -> list[Json]:
    (role,) = [d for d in documents() if (d["kind"], d["metadata"]["name"]) == (kind, name)]
    rules: list[Json] = role["rules"]
    return rules


def allowed(rules: Iterable[Json]) -> set[tuple[str, str, str]]:
    """Group, resource and verb of everything that rules allow."""
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def meant(table: dict[str, str]) -> set[tuple[str, str, str]]:
    """The same of a table."""
    return {
        (line.partition(": ")[0], resource, verb)
        for line, verbs in table.items()
        for resource in line.partition(": ")[2].split()
        for verb in verbs.split()
    }


def test_the_controller_may_do_what_is_listed() -> None:
    lease = rules_of("Role", "karpenter")

    assert meant(CORE) == allowed(rules_of("ClusterRole", "karpenter-core"))
    assert meant(PROVIDER) == allowed(rules_of("ClusterRole", "karpenter"))
    assert meant(LEASE) == allowed(rule for rule in lease if "resourceNames" not in rule)
    named = [rule for rule in lease if "resourceNames" in rule]
    assert meant(OWN_LEASE) == allowed(named)
    assert [["karpenter-leader-election"]] == [rule["resourceNames"] for rule in named]


def test_roles_for_what_is_optional_are_nobodys_until_they_are_bound() -> None:
    roles = {d["metadata"]["name"] for d in documents() if d["kind"] == "ClusterRole"}
    bindings = [d for d in documents() if "roleRef" in d]

    assert UNBOUND == roles - {binding["roleRef"]["name"] for binding in bindings}
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    assert [[subject]] * len(bindings) == [binding["subjects"] for binding in bindings]

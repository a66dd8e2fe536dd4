"""Readable objects for tests: say only what the test is about, everything else has a default.

    pod("web", cpu="1", labels=APP_T, spread=[spread()])
    pods(40, memory="1.8G", node_selector={keys.ARCH: "amd64"})
    node_pool("np", requirements=[expression("cores", "Gt", "8")], limits={"cpu": "20"})
    managed_node("n1", cpu="4", pods=[pod("a", node_name="n1")])
    instance_type("big", cpu="64", memory="256Gi", reservations=[reserved("r-1", 2)])
    fixture_types(), ladder(5), FACTS_F

Pods are pending and marked unschedulable unless they have a node, pools are ready, machines are
large and stand in z1, uids follow from names, and quantities are written as in a manifest. Options
are listed, with their defaults, in ``PodOptions`` and ``MachineOptions``.
"""

from helpers.builders.catalogues import (
    CORES,
    FACTS_F,
    RESERVATION_ID,
    SIZE,
    SPECIAL,
    fixture_types,
    instance_type,
    ladder,
    offering,
    price_of,
    priced_type,
    reserved,
)
from helpers.builders.commitments import (
    book_of,
    ledger_of,
    reserved_instances,
    savings_plan,
)
from helpers.builders.machines import (
    NODE_CLASS,
    MachineOptions,
    launching_node,
    managed_node,
    node,
    node_claim,
    node_pool,
    unmanaged_node,
)
from helpers.builders.parts import (
    APP_T,
    NOW,
    READY,
    SELF,
    UNSCHEDULABLE,
    Amounts,
    Expressions,
    condition,
    container,
    expression,
    min_values,
    owner,
    pod_term,
    selector,
    spread,
    taint,
    toleration,
    uid_of,
)
from helpers.builders.surroundings import csi_node, namespace, pdb, pv, pvc, service, storage_class
from helpers.builders.workloads import (
    PodOptions,
    daemon_pod,
    daemon_set,
    pod,
    pod_spec,
    pod_template,
    pods,
    replica_set,
)

__all__ = [
    "APP_T",
    "CORES",
    "FACTS_F",
    "NODE_CLASS",
    "NOW",
    "READY",
    "RESERVATION_ID",
    "SELF",
    "SIZE",
    "SPECIAL",
    "UNSCHEDULABLE",
    "Amounts",
    "Expressions",
    "MachineOptions",
    "PodOptions",
    "book_of",
    "condition",
    "container",
    "csi_node",
    "daemon_pod",
    "daemon_set",
    "expression",
    "fixture_types",
    "instance_type",
    "ladder",
    "launching_node",
    "ledger_of",
    "managed_node",
    "min_values",
    "namespace",
    "node",
    "node_claim",
    "node_pool",
    "offering",
    "owner",
    "pdb",
    "pod",
    "pod_spec",
    "pod_template",
    "pod_term",
    "pods",
    "price_of",
    "priced_type",
    "pv",
    "pvc",
    "replica_set",
    "reserved",
    "reserved_instances",
    "savings_plan",
    "selector",
    "service",
    "spread",
    "storage_class",
    "taint",
    "toleration",
    "uid_of",
    "unmanaged_node",
]

"""What the dashboard's server and its page say to each other: every document, column and unit.

A view holds a cluster as columns: the n-th values of all columns of ``nodes`` are one node. Rows have
an ``id``, a small integer that stands for one object as long as the epoch lasts and is never given
to another; rows are ordered by it. A column whose values are places in a dictionary says so below;
dictionaries only grow while an epoch lasts, and their first entry stands for "none".

Units are millicores, bytes and dollars per hour. Moments within columns are seconds since 1970, and
zero where there is none; everywhere else they are RFC 3339 in UTC. Within version 1 fields are only
added; readers pass over fields and events they do not know.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

VERSION: Final = 1

_NONE: Final = ("",)
# Dictionaries whose entries are the same in every epoch
CAPACITY_TYPES: Final = ("", "spot", "on-demand", "reserved")
NODE_STATES: Final = (
    "",
    "Claimed",  # a NodeClaim without a machine so far: a dashed cell
    "Starting",  # a machine that has not registered, or is not initialized
    "Ready",
    "NotReady",
    "Draining",  # is being removed, or marked for it
)
POD_STATES: Final = (
    "",
    "Gated",  # held back by a scheduling gate
    "Waiting",  # has no node
    "Starting",  # has a node, does not run yet
    "Running",
    "Terminating",
)

# Bits of the column ``flags`` of nodes
NODE_FLAGS: Final[Mapping[str, int]] = {
    "managed": 1,  # has a NodeClaim; without it the node is not Karpenter's
    "unschedulable": 2,  # is cordoned
    "empty": 4,  # no pod but daemons
    "drifted": 8,
    "consolidatable": 16,
    "doNotDisrupt": 32,  # by the node's annotation, or that of one of its pods
    "pdb": 64,  # a PDB allows no eviction of one of its pods at the moment
    "nominated": 128,  # waiting pods are expected on it
    "expired": 256,
    "rebooting": 512,
}
# Bits of the column ``flags`` of pods
POD_FLAGS: Final[Mapping[str, int]] = {
    "daemon": 1,
    "mirror": 2,  # of a static pod of the kubelet
    "doNotDisrupt": 4,
    "pdb": 8,  # a PDB allows no eviction of it at the moment
    "critical": 16,  # of a system-critical priority class
    "hidden": 32,  # of a namespace that is not shown: it has no name, no namespace, no owner
}


class Document(msgspec.Struct, kw_only=True, rename="camel"):
    """Base of every document: camelCase on the wire, every field always there."""


def _listed(entries: Sequence[str]) -> Any:
    return msgspec.field(default_factory=lambda: list(entries))


class Dictionaries(Document):
    """Text that many rows share; a column names its place in one of these."""

    namespace: list[str] = _listed(_NONE)
    owner: list[str] = _listed(_NONE)  # such as Deployment/web
    pool: list[str] = _listed(_NONE)
    zone: list[str] = _listed(_NONE)
    type: list[str] = _listed(_NONE)  # instance types
    reason: list[str] = _listed(_NONE)  # CamelCase, of conditions
    capacity_type: list[str] = _listed(CAPACITY_TYPES)
    node_state: list[str] = _listed(NODE_STATES)
    pod_state: list[str] = _listed(POD_STATES)


class NodeColumns(Document):
    """Machines: Nodes, and NodeClaims whose Node does not exist yet. Ordered by ``id``."""

    id: list[int] = []
    name: list[str] = []  # the Node's, or the NodeClaim's while there is no Node
    claim: list[str] = []  # the NodeClaim's; empty if there is none
    pool: list[int] = []  # dictionary pool; 0: not Karpenter's
    zone: list[int] = []  # dictionary zone
    type: list[int] = []  # dictionary type
    capacity_type: list[int] = []  # dictionary capacityType
    state: list[int] = []  # dictionary nodeState
    cpu: list[int] = []  # allocatable, millicores
    memory: list[int] = []  # allocatable, bytes
    pods: list[int] = []  # allocatable pods
    gpu: list[int] = []  # allocatable devices of all ``*/gpu``-like resources together
    price: list[float | None] = []  # $/h; null: not known, and never counted as nothing
    is_estimate: list[bool] = []  # the price is an estimate: shown with ~
    created: list[int] = []  # seconds
    expires: list[int] = []  # seconds; 0: never
    empty_until: list[int] = []  # seconds: when an empty node may go; 0: not empty, or never
    flags: list[int] = []  # bits of NODE_FLAGS
    reason: list[int] = []  # dictionary reason: why it goes, or why it is not ready


class PodColumns(Document):
    """Pods that have not finished. Ordered by ``id``."""

    id: list[int] = []
    namespace: list[int] = []  # dictionary namespace
    name: list[str] = []
    owner: list[int] = []  # dictionary owner; of a ReplicaSet's pod its Deployment
    node: list[int] = []  # id of its node; -1: none
    target: list[int] = []  # id of the node it is expected on while it waits; -1: none
    cpu: list[int] = []  # requested, millicores
    memory: list[int] = []  # requested, bytes
    gpu: list[int] = []  # requested devices
    state: list[int] = []  # dictionary podState
    created: list[int] = []  # seconds
    flags: list[int] = []  # bits of POD_FLAGS
    reason: list[int] = []  # dictionary reason: why it waits


class BudgetLine(Document):
    """One disruption budget of a pool."""

    nodes: str  # a number or a share
    reasons: list[str] | None  # null: all
    schedule: str | None  # cron, in UTC
    duration: str | None


class Pool(Document):
    """One NodePool; ``explain/nodepool/NAME`` tells more."""

    name: str
    node_class: str  # such as KWOKNodeClass/default
    is_ready: bool
    reason: str  # of the Ready condition where it is not ready
    weight: int
    replicas: int | None  # of a static pool
    limits: dict[str, int]  # by resource; cpu in millicores, memory in bytes, others as counts
    use: dict[str, int]  # capacity of its machines, for the resources of limits and cpu, memory
    nodes: int
    hourly: float  # of the nodes with a known price
    unpriced: int  # the others
    is_estimate: bool
    consolidation_policy: str
    consolidate_after: str
    budgets: list[BudgetLine]


class Totals(Document):
    """Sums over the cluster."""

    nodes: int = 0  # with claims that have no machine yet
    ready: int = 0
    node_states: dict[str, int] = {}  # state -> number; states without a node are absent
    pods: int = 0  # rows
    pod_states: dict[str, int] = {}  # the same; "Finished" too, which has no rows
    waiting: int = 0
    hourly: float = 0.0  # $/h of the nodes with a known price
    monthly: float = 0.0  # 730 h
    unpriced: int = 0  # nodes of unknown price, which are not in the sums
    is_estimate: bool = False
    cpu: int = 0  # allocatable of machines, millicores
    memory: int = 0
    cpu_requested: int = 0  # by pods that have a node
    memory_requested: int = 0


class Notice(Document):
    """One sentence above every page, as long as it holds."""

    kind: str  # unreadable, unserved, lost, not-leader, no-prices, no-pools, no-crds, estimates …
    text: str  # one sentence
    severity: str = "info"  # or warning
    objects: list[str] = []  # such as kinds that may not be read
    since: str = ""  # RFC 3339; empty: since always
    command: str = ""  # what helps, to be copied


class View(Document):
    """``GET api/v1/view``: the whole cluster at one moment."""

    version: int = VERSION
    epoch: str = ""
    seq: int = 0  # grows by one with every delta
    at: str = ""
    source: str = ""  # sandbox, controller, live or files
    provider: str = ""  # kwok, aws, …; empty: none is known
    cluster: str = ""  # the context of the kubeconfig, or the names of files
    is_live: bool = True  # false: a moment of the past (?at=), or a cluster that stands still
    notices: list[Notice] = []
    dictionaries: Dictionaries = msgspec.field(default_factory=Dictionaries)
    nodes: NodeColumns = msgspec.field(default_factory=NodeColumns)
    pods: PodColumns = msgspec.field(default_factory=PodColumns)
    pools: list[Pool] = []  # by name
    totals: Totals = msgspec.field(default_factory=Totals)


class Rows(Document):
    """Changed rows: each a list with a value for every column in the order above, id first."""

    set: list[list[Any]] = []  # new rows, and whole rows in place of old ones
    removed: list[int] = msgspec.field(default=[], name="del")


class Delta(Document, omit_defaults=True):
    """Event ``delta``: what to change of view ``seq - 1`` to have view ``seq``. Absent: unchanged."""

    seq: int
    at: str
    dictionaries: dict[str, list[tuple[int, str]]] = {}  # dictionary -> [[place, text]], appended
    nodes: Rows = msgspec.field(default_factory=Rows)
    pods: Rows = msgspec.field(default_factory=Rows)
    pools: list[Pool] | None = None  # all of them
    totals: Totals | None = None
    notices: list[Notice] | None = None  # all of them


class Hello(Document):
    """Event ``hello``, the first of every stream; deltas follow from ``seq`` of the request on."""

    epoch: str
    seq: int  # of the server's view now
    version: int = VERSION
    release: str = ""  # of the program: another one after a restart means "reload"
    assets: str = ""  # hash of the page's files


class Resync(Document):
    """Event ``resync``: forget the view and fetch it anew."""

    epoch: str
    seq: int
    reason: str  # epoch, too-old, too-much, behind


class Ping(Document):
    """Event ``ping``, every 15 s; ``at`` is when the cluster was last heard of."""

    at: str
    seq: int


class Problem(Document):
    """One thing that is wrong with what was asked."""

    text: str  # a sentence
    line: int | None = None
    field: str = ""  # such as spec.template.spec.taints


class Refusal(Document):
    """The body of every answer with a status of 400 and above."""

    error: str  # one sentence
    problems: list[Problem] = []


class Records(Document):
    """``GET api/v1/decisions?before=ID&limit=N&kind=K&nodePool=P&text=T``, the newest first."""

    records: list[dict[str, Any]]  # as decision.schema.json has them; event ``decision`` is one
    before: str | None  # give it to get the next page; null: there are no more


class Moments(Document):
    """Cost over time, at most 2,000 points."""

    at: list[int] = []  # seconds
    hourly: list[float] = []
    nodes: list[int] = []
    pods: list[int] = []
    unpriced: list[int] = []


class CostRow(Document):
    """One row of a cost table."""

    name: str
    hourly: float
    monthly: float
    share: float  # of the sum of all priced nodes, 0 to 1
    is_estimate: bool
    nodes: int | None = None  # of pools and capacity types
    pods: int | None = None  # of namespaces and owners
    unpriced: int = 0


class CostTable(Document):
    """Costs by one property. The rows, daemons and idle add up to ``hourly`` of the document."""

    by: str  # pool, capacityType, namespace, owner
    rows: list[CostRow]  # the most expensive first
    daemons: float = 0.0  # $/h; only by namespace and owner
    idle: float = 0.0  # $/h; only by namespace and owner


class BlockedNode(Document):
    """A node that stays although a move would save."""

    node: str
    hourly: float
    detail: str
    objects: list[str]  # who holds it, such as PodDisruptionBudget/default/web
    is_estimate: bool = False


class BlockedSaving(Document):
    """What is not saved for one reason; moves are judged one by one, so it is "up to"."""

    reason: str
    hourly: float
    nodes: list[BlockedNode]
    is_estimate: bool = False


class Savings(Document):
    """What the plan of this moment would save."""

    planned: float  # $/h
    commands: int
    blocked: list[BlockedSaving]
    is_partial: bool = False
    is_estimate: bool = False  # what is planned rests on an estimated price


class Realised(Document):
    """What finished commands have saved so far."""

    dollars: float
    hourly: float
    commands: int
    since: str
    is_estimate: bool


class Costs(Document):
    """``GET api/v1/costs?from=T&to=T&by=pool,namespace``."""

    at: str
    hourly: float
    monthly: float
    unpriced: int
    is_estimate: bool
    series: Moments
    tables: list[CostTable]
    savings: Savings | None = None  # null: no plan was made yet; ask for one with api/v1/plan
    bound: float | None = None  # $/h below which no nodes for these pods can go
    gap: float | None = None  # cost / bound - 1
    realised: Realised | None = None


class Answer(Document):
    """What is added to the documents of ``plan`` and ``explain -o json``."""

    as_of: str
    took: float  # seconds
    is_partial: bool  # NotEvaluated says what was not looked at


class WhatIfRequest(Document, forbid_unknown_fields=True, omit_defaults=True):
    """``POST api/v1/what-if``; at least one of them."""

    drain: list[str] = []  # names of nodes
    apply: list[dict[str, Any]] | str = []  # manifests, or their YAML
    delete: list[str] = []  # such as NodePool/batch, Deployment/default/web
    set: dict[str, str] = {}  # settings


class Difference(Document):
    """What a what-if changes."""

    nodes_added: list[dict[str, Any]]  # as nodeClaims of plan
    nodes_removed: list[str]
    pods_moved: list[str]
    pods_unplaced: list[str]
    pods_placed: list[str]
    hourly: float | None  # $/h more; null: a price is not known
    is_estimate: bool = False  # it rests on an estimated price


class WhatIfAnswer(Answer):
    """The plan without and with what was asked, and how they differ."""

    before: dict[str, Any]  # plan
    after: dict[str, Any]  # plan
    diff: Difference
    # Pods of drained nodes that are not evicted: {pod, pdb, detail}; without a PDB pdb is empty
    held: list[dict[str, Any]] = []
    drifted: list[str] = []  # nodes that differ from their pool only with the change
    pools: list[dict[str, Any]] = []  # as explain/nodepool, of the pools that were applied


class HistoryKept(Document):
    """How far back ``?at=`` and the scrubber go."""

    since: str | None  # null: no history
    until: str
    bytes: int
    is_on_disk: bool


class About(Document):
    """``GET api/v1/about``."""

    version: str
    source: str
    provider: str
    cluster: str
    prices: str  # whose and when, a sentence
    unread: list[str]  # kinds that could not be read
    settings: dict[str, str]  # those in force, by their names
    settings_from: str  # a sentence
    history: HistoryKept
    clients: int
    can_plan: bool  # plan, why and what-if work
    leader: str  # identity of the leader; empty: not known

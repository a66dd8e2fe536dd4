"""The fields of a scenario; closed, so that a misspelt one is an error."""

from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

API_VERSION: Final = "simulate.karpenter.sh/v1"
KIND: Final = "Scenario"

_LENGTH: Final = r"(?:[0-9]+(?:\.[0-9]+)?(?:d|h|m|s|ms))+"
_LENGTHS: Final = rf"^(?:{_LENGTH}|0)$"
_SIGNED: Final = rf"^-?(?:{_LENGTH}|0)$"
_PERCENT: Final = r"^[0-9]+(?:\.[0-9]+)?%$"
_PROBABILITY: Final = r"^(?:100(?:\.0+)?|[0-9]{1,2}(?:\.[0-9]+)?)%$"
_RATE: Final = r"^[0-9]+(?:\.[0-9]+)?/(?:s|m|h|d)$"
_HAZARD: Final = r"^[0-9]+(?:\.[0-9]+)?%/(?:h|d)$"
_TIME_OF_DAY: Final = r"^(?:[01][0-9]|2[0-3]):[0-5][0-9]$"
_MOMENT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"
_NAME: Final = r"^[a-z0-9](?:[-a-z0-9]{0,51}[a-z0-9])?$"
_TARGET: Final = r"^[A-Z][A-Za-z]*/[a-z0-9][-a-z0-9.]*$"
_OFFERINGS: Final = r"^[^/,\s]+/[^/,\s]+/[^/,\s]+$"
_QUANTITY: Final = r"^[0-9]+(?:\.[0-9]+)?(?:[eE][0-9]+|m|k|[KMGTP]i?)?$"
_FIELD: Final = r"^[A-Za-z][A-Za-z0-9]*(?:\.[A-Za-z0-9_-]+)*$"
LENGTH_MEANS: Final = "a length of time such as 90s, 1h30m or 7d"
# What a text is that does not match, for the sentence that says so
MEANINGS: Final = {
    _LENGTHS: LENGTH_MEANS,
    _SIGNED: "a length of time such as 30s or -30s",
    _PERCENT: "a percentage such as 5%",
    _PROBABILITY: "a percentage of at most 100%, such as 5%",
    _RATE: "a rate such as 40/h",
    _HAZARD: "a part in a time, such as 5%/d",
    _TIME_OF_DAY: "a time of day such as 14:00",
    _MOMENT: "a time in UTC such as 2030-01-07T00:00:00Z",
    _NAME: "a name of at most 53 lower-case letters, digits and hyphens",
    _TARGET: "an object such as Deployment/web",
    _OFFERINGS: "offerings as type/zone/capacity-type, such as c-*/test-zone-a/spot",
    _QUANTITY: "an amount such as 500m or 1Gi",
    _FIELD: "a field of the report such as pods.pendingSeconds.p95",
}
Length: TypeAlias = Annotated[str, Meta(pattern=_LENGTHS)]
SignedLength: TypeAlias = Annotated[str, Meta(pattern=_SIGNED)]
Percent: TypeAlias = Annotated[str, Meta(pattern=_PERCENT)]
Probability: TypeAlias = Annotated[str, Meta(pattern=_PROBABILITY)]
Rate: TypeAlias = Annotated[str, Meta(pattern=_RATE)]
TimeOfDay: TypeAlias = Annotated[str, Meta(pattern=_TIME_OF_DAY)]
Name: TypeAlias = Annotated[str, Meta(pattern=_NAME)]
Target: TypeAlias = Annotated[str, Meta(pattern=_TARGET)]
Offerings: TypeAlias = Annotated[str, Meta(pattern=_OFFERINGS)]
Setting: TypeAlias = str | int | float | bool
Quantity: TypeAlias = (
    Annotated[str, Meta(pattern=_QUANTITY)]
    | Annotated[int, Meta(ge=0)]
    | Annotated[float, Meta(ge=0)]
)
Count: TypeAlias = Annotated[int, Meta(ge=0)]
AtLeastOne: TypeAlias = Annotated[int, Meta(ge=1)]
Amount: TypeAlias = Annotated[float, Meta(ge=0)]
JsonObject: TypeAlias = dict[str, Any]


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of every part of a scenario.

    ``exactly_one`` are fields of which one must be given, and no two; ``thing`` is what a sentence
    calls such a part, and ``does`` what it does with that field.
    """

    exactly_one: ClassVar[tuple[str, ...]] = ()
    thing: ClassVar[str] = ""


# --- Amounts of time


class Normal(Part, frozen=True, kw_only=True):
    """Amounts around a mean."""

    mean: Length
    stddev: Length
    min: Length = "0"
    max: Length | None = None


class Lognormal(Part, frozen=True, kw_only=True):
    """Amounts with a long tail, by two of their percentiles."""

    p50: Length
    p95: Length
    max: Length | None = None


class Exponential(Part, frozen=True, kw_only=True):
    """Amounts between events that do not depend on each other."""

    mean: Length
    max: Length | None = None


class Column(Part, frozen=True, kw_only=True):
    """Measured amounts, in seconds."""

    csv: str
    column: str


class Spread(Part, frozen=True, kw_only=True):
    """An amount of time that differs from one to the next."""

    exactly_one: ClassVar[tuple[str, ...]] = (
        "uniform",
        "normal",
        "lognormal",
        "exponential",
        "empirical",
    )
    thing: ClassVar[str] = "an amount of time has one distribution"

    uniform: tuple[Length, Length] | None = None
    normal: Normal | None = None
    lognormal: Lognormal | None = None
    exponential: Exponential | None = None
    empirical: Annotated[list[Length], Meta(min_length=1)] | Column | None = None


Time: TypeAlias = Length | Spread


class MatchedTime(Part, frozen=True, kw_only=True):
    """An amount of time for machines of some offerings."""

    match: Offerings = "*/*/*"
    is_: Time = msgspec.field(name="is")


class ImageTime(Part, frozen=True, kw_only=True):
    """How long pods of some images take to start; ``first`` is where the node does not have it yet."""

    image: str = "*"
    is_: Time = msgspec.field(name="is")
    first: Time | None = None


Times: TypeAlias = Length | Spread | list[MatchedTime]
Starts: TypeAlias = Length | Spread | list[ImageTime]

# --- The world


PROVIDERS: Final = ("kwok",)


class Provider(Part, frozen=True, kw_only=True):
    """The simulated cloud, and what it sells."""

    name: Literal["kwok"] = "kwok"  # of PROVIDERS
    instance_types: str | None = None


class Images(Part, frozen=True, kw_only=True):
    """Images are pulled once by each node, one at a time."""

    bandwidth: Quantity
    sizes: dict[str, Quantity]


class Machines(Part, frozen=True, kw_only=True):
    """How long machines, pods and images take."""

    launch: Time = "0s"
    boot: Times = "0s"
    start: Starts = "0s"
    shutdown: Time = "0s"
    images: Images | None = None


class ClientLimit(Part, frozen=True, kw_only=True):
    """Requests a second, and how many at once; a ``qps`` of 0 is no limit."""

    qps: Amount
    burst: Count = 0


class ControlPlane(Part, frozen=True, kw_only=True):
    """The client limits of the control plane, and how slow its API and the controllers are."""

    controller_manager: ClientLimit = ClientLimit(qps=20, burst=30)
    scheduler: ClientLimit = ClientLimit(qps=50, burst=100)
    latency: Length = "0s"
    thinking: Length = "0s"


class PriceFile(Part, frozen=True, kw_only=True):
    """Factors over time since the first row, or prices at times of day.

    ``time`` is a column of seconds or of timestamps, and ``offering`` one of type/zone/capacity-type.
    """

    exactly_one: ClassVar[tuple[str, ...]] = ("factor", "price")
    thing: ClassVar[str] = "a series has factors or prices"

    csv: str
    time: str
    factor: str | None = None
    price: str | None = None
    offering: str | None = None


class Walk(Part, frozen=True, kw_only=True):
    """A random walk of the price around its list price."""

    volatility: Percent
    floor: Percent = "50%"
    cap: Percent = "300%"
    every: Length = "10m"


class Price(Part, frozen=True, kw_only=True):
    """How prices of some offerings move."""

    exactly_one: ClassVar[tuple[str, ...]] = ("series", "walk", "factor", "price")
    thing: ClassVar[str] = "prices move in one way"

    match: Offerings = "*/*/*"
    series: PriceFile | None = None
    walk: Walk | None = None
    factor: Amount | None = None
    price: Amount | None = None


class Billing(Part, frozen=True, kw_only=True):
    """What a machine costs at least."""

    minimum: Length = "60s"


class Interruptions(Part, frozen=True, kw_only=True):
    """Spot machines are taken back at a rate."""

    match: Offerings = "*/*/spot"
    rate: Annotated[str, Meta(pattern=_HAZARD)]
    notice: Length = "2m"


# --- Workloads


class Pod(Part, frozen=True, kw_only=True):
    """A pod in a few words."""

    cpu: Quantity | None = None
    memory: Quantity | None = None
    gpu: Count = 0
    image: str = "example.com/app:1"
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: list[JsonObject] = msgspec.field(default_factory=list)
    spread: Literal["zone", "hostname"] | None = None
    anti_affinity: Literal["zone", "hostname"] | None = None
    priority: str | None = None
    do_not_disrupt: bool = False


class Step(Part, frozen=True, kw_only=True):
    """So many replicas from then on."""

    at: Length
    replicas: Count


class Diurnal(Part, frozen=True, kw_only=True):
    """A curve with a day's period."""

    low: Amount
    high: Amount
    peak_at: TimeOfDay = "14:00"
    shape: Literal["cosine", "plateau"] = "cosine"
    weekend: Amount = 1.0
    noise: Percent = "0%"
    every: Length = "1m"


class Point(Part, frozen=True, kw_only=True):
    """A value from then on, up to the next point."""

    at: Length
    value: Amount


class TimeColumn(Part, frozen=True, kw_only=True):
    """A column of times: numbers of a unit, or texts of a format."""

    column: str
    unit: Literal["ms", "s", "m", "h"] | None = None
    format: str | None = None


class MetricFile(Part, frozen=True, kw_only=True):
    """Rows summed up in buckets."""

    file: str
    time: TimeColumn
    sum: Annotated[list[str], Meta(min_length=1)]
    every: Length = "15s"


class Curve(Part, frozen=True, kw_only=True):
    """A value over time."""

    exactly_one: ClassVar[tuple[str, ...]] = ("diurnal", "points", "csv")
    thing: ClassVar[str] = "a curve has one source"

    diurnal: Diurnal | None = None
    points: Annotated[list[Point], Meta(min_length=1)] | None = None
    csv: MetricFile | None = None


class Hpa(Part, frozen=True, kw_only=True):
    """An autoscaler that follows a metric."""

    metric: Curve
    per_pod: Annotated[float, Meta(gt=0)]
    min: AtLeastOne = 1
    max: AtLeastOne
    behavior: JsonObject | None = None


class Bursts(Part, frozen=True, kw_only=True):
    """Many Jobs at once, again and again."""

    every: Length
    jobs: AtLeastOne
    times: AtLeastOne | None = None


class Jobs(Part, frozen=True, kw_only=True):
    """Jobs that arrive by chance."""

    rate: Rate | Curve | None = None
    bursts: Bursts | None = None
    duration: Time = "1m"
    parallelism: AtLeastOne = 1
    on_eviction: Literal["restart", "resume"] = "restart"


class Cron(Part, frozen=True, kw_only=True):
    """A CronJob."""

    schedule: str
    pods: AtLeastOne = 1
    duration: Time = "1m"


class Rollout(Part, frozen=True, kw_only=True):
    """The template of the workload changes, once or again and again."""

    exactly_one: ClassVar[tuple[str, ...]] = ("at", "every")
    thing: ClassVar[str] = "a rollout happens once or again and again"

    target: Target
    at: Length | None = None
    every: Length | None = None


class DurationColumn(Part, frozen=True, kw_only=True):
    """How long a row runs: a column of lengths, or two of times."""

    column: str | None = None
    from_: str | None = msgspec.field(name="from", default=None)
    to: str | None = None
    unit: Literal["ms", "s", "m", "h"] = "s"


class RequestColumn(Part, frozen=True, kw_only=True):
    """A column of amounts, with the unit of its numbers."""

    column: str
    unit: str = ""


class DropRows(Part, frozen=True, kw_only=True):
    """Rows that are left out."""

    column: str
    is_: str = msgspec.field(name="is")


class Rows(Part, frozen=True, kw_only=True):
    """A pod or a Job for each row of a file."""

    file: str
    time: TimeColumn
    duration: DurationColumn
    requests: dict[str, RequestColumn]
    share: str | None = None  # a column of thousandths of a GPU
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)  # label -> column
    priority: str | None = None
    replicas: str | None = None
    drop: list[DropRows] = msgspec.field(default_factory=list)
    speed: Annotated[float, Meta(gt=0)] = 1.0
    take: AtLeastOne | None = None
    repeat: AtLeastOne = 1
    as_: Literal["Pod", "Job"] = msgspec.field(name="as", default="Pod")
    on_bad_row: Literal["fail", "skip"] = "fail"


class Trace(Part, frozen=True, kw_only=True):
    """A trace of SimKube."""

    file: str
    drop: list[str] = msgspec.field(default_factory=list)
    node_labels: Literal["keep", "drop"] = "keep"


class Replay(Part, frozen=True, kw_only=True):
    """What `karpenter record` wrote: a segment, or a pattern of several."""

    file: str
    hpa: Literal["recorded", "live"] = "recorded"  # autoscalers and CronJobs act again when live


GENERATORS: Final = (
    "steps",
    "diurnal",
    "hpa",
    "jobs",
    "cron",
    "rollout",
    "csv",
    "sktrace",
    "recording",
)


class Workload(Part, frozen=True, kw_only=True):
    """What users ask for."""

    exactly_one: ClassVar[tuple[str, ...]] = GENERATORS
    thing: ClassVar[str] = "a workload has one generator"

    name: Name
    namespace: Name = "default"
    kind: Literal["Deployment", "StatefulSet"] = "Deployment"
    pod: Pod | None = None
    template: JsonObject | None = None
    target: Target | None = None
    pdb: JsonObject | None = None
    start: Time | None = None
    shutdown: Time | None = None
    steps: Annotated[list[Step], Meta(min_length=1)] | None = None
    diurnal: Diurnal | None = None
    hpa: Hpa | None = None
    jobs: Jobs | None = None
    cron: Cron | None = None
    rollout: Rollout | None = None
    csv: Rows | None = None
    sktrace: Trace | None = None
    recording: Replay | None = None


# --- The timeline


class Pick(Part, frozen=True, kw_only=True):
    """Some of the nodes that the cloud made."""

    pool: str | None = None
    zone: str | None = None
    capacity_type: str | None = None
    type: str | None = None
    selector: dict[str, str] = msgspec.field(default_factory=dict)
    count: AtLeastOne | None = None
    percent: Annotated[float, Meta(gt=0, le=100)] | None = None
    order: Literal["random", "oldest", "newest"] = "random"


class Failure(Pick, frozen=True, kw_only=True):
    """What goes wrong with the nodes that are picked."""

    fault: Literal[
        "not-ready",
        "unreachable",
        "disappears",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
    ]


class Merge(Part, frozen=True, kw_only=True):
    """A merge patch of one object."""

    target: Target
    merge: JsonObject


class Scale(Part, frozen=True, kw_only=True):
    """Another number of replicas."""

    target: Target
    replicas: Count


class PriceStep(Part, frozen=True, kw_only=True):
    """Other prices from now on."""

    exactly_one: ClassVar[tuple[str, ...]] = ("factor", "price")
    thing: ClassVar[str] = "a price is set or multiplied"

    match: Offerings
    factor: Amount | None = None
    price: Amount | None = None


VERBS: Final = (
    "apply",
    "delete",
    "patch",
    "scale",
    "rollout",
    "interrupt",
    "fail",
    "soldOut",
    "restock",
    "zoneDown",
    "price",
    "set",
    "kill",
    "clock",
    "faults",
    "expect",
    "mark",
)


class RequestFaults(Part, frozen=True, kw_only=True):
    """How often requests of the controllers go wrong."""

    conflict: Probability | None = None
    throttled: Probability | None = None
    broken: Probability | None = None
    lost: Probability | None = None
    unreachable: Probability | None = None
    slow: Probability | None = None
    dropped: Probability | None = None
    expired: Probability | None = None


class Expectation(Part, frozen=True, kw_only=True):
    """What a figure of the report must be."""

    path: Annotated[str, Meta(pattern=_FIELD)]
    in_: str | None = msgspec.field(name="in", default=None)
    than: str | None = None
    min: float | None = None
    max: float | None = None
    equals: float | None = None
    at_most: float | None = None
    at_least: float | None = None


class TimelineStep(Part, frozen=True, kw_only=True):
    """Something that happens."""

    exactly_one: ClassVar[tuple[str, ...]] = VERBS
    thing: ClassVar[str] = "a step does one thing"

    at: Length | None = None
    every: Length | None = None
    from_: Length | None = msgspec.field(name="from", default=None)
    to: Length | None = None
    for_: Length | None = msgspec.field(name="for", default=None)
    in_: list[str] | None = msgspec.field(name="in", default=None)
    notice: Length | None = None
    apply: Annotated[list[str | JsonObject], Meta(min_length=1)] | None = None
    delete: Annotated[list[Target], Meta(min_length=1)] | None = None
    patch: Annotated[list[Merge], Meta(min_length=1)] | None = None
    scale: Scale | None = None
    rollout: Target | None = None
    interrupt: Pick | None = None
    fail: Failure | None = None
    sold_out: Annotated[list[Offerings], Meta(min_length=1)] | None = None
    restock: Annotated[list[Offerings], Meta(min_length=1)] | None = None
    zone_down: str | None = None
    price: PriceStep | None = None
    set: dict[str, Setting] | None = None
    kill: Literal["controllers"] | None = None
    clock: SignedLength | None = None
    faults: RequestFaults | None = None
    expect: Annotated[list[Expectation], Meta(min_length=1)] | None = None
    mark: str | None = None


# --- Faults


class SoldOutFault(Part, frozen=True, kw_only=True):
    """Offerings are sold out for a while, now and then."""

    every: Length
    lasts: Length = "10m"


class InterruptFault(Part, frozen=True, kw_only=True):
    """Spot machines are taken back, now and then."""

    every: Length
    percent: Annotated[float, Meta(gt=0, le=100)] = 20.0


class NodeFault(Part, frozen=True, kw_only=True):
    """A node goes wrong, now and then."""

    every: Length
    lasts: Length = "5m"


class KillFault(Part, frozen=True, kw_only=True):
    """The controllers die, now and then, and start again after a while."""

    every: Length
    lasts: Length = "20s"


class ClockFault(Part, frozen=True, kw_only=True):
    """The controllers' time of day is off, now and then."""

    every: Length
    off: Length = "30s"


class MishapOf(Part, frozen=True, kw_only=True):
    """One fault of one request: the number-th of its method and path."""

    fault: Literal[
        "conflict", "throttled", "broken", "lost", "unreachable", "slow", "dropped", "expired"
    ]
    method: str
    path: str
    number: Count = 0


class FaultMix(RequestFaults, frozen=True, kw_only=True):
    """How strong each fault may be; each seed has some of them, and less of each."""

    sold_out: SoldOutFault | None = None
    interrupt: InterruptFault | None = None
    not_ready: NodeFault | None = None
    silent: NodeFault | None = None
    disappears: NodeFault | None = None
    kill: KillFault | None = None
    clock: ClockFault | None = None
    rest: Length = "25m"
    exactly: list[MishapOf] | None = None  # these and no others, instead of probabilities


# --- Variants and expectations


class Variant(Part, frozen=True, kw_only=True):
    """The scenario with other settings."""

    name: Name
    settings: dict[str, Setting] = msgspec.field(default_factory=dict)
    patch: list[Merge] = msgspec.field(default_factory=list)
    add: list[str | JsonObject] = msgspec.field(default_factory=list)
    remove: list[Target] = msgspec.field(default_factory=list)
    machines: Machines | None = None
    prices: list[Price] | None = None
    faults: Literal["storm"] | FaultMix | None = None


class ReportOptions(Part, frozen=True, kw_only=True):
    """How fine the series of the report are."""

    every: Length | None = None


class Metadata(Part, frozen=True, kw_only=True):
    """The name of a scenario."""

    name: Name
    description: str = ""


class Scenario(Part, frozen=True, kw_only=True):
    """A cluster, what happens to it, and what is compared."""

    api_version: Literal["simulate.karpenter.sh/v1"]
    kind: Literal["Scenario"]
    metadata: Metadata
    start: Annotated[str, Meta(pattern=_MOMENT)] = "2030-01-07T00:00:00Z"
    until: Length
    warmup: Length = "0s"
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 1
    provider: Provider = Provider()
    settings: dict[str, Setting] = msgspec.field(default_factory=dict)
    include: list[str] = msgspec.field(default_factory=list)
    objects: list[JsonObject] = msgspec.field(default_factory=list)
    machines: Machines = Machines()
    control_plane: ControlPlane = ControlPlane()
    prices: list[Price] = msgspec.field(default_factory=list)
    billing: Billing = Billing()
    interruptions: list[Interruptions] = msgspec.field(default_factory=list)
    workloads: list[Workload] = msgspec.field(default_factory=list)
    timeline: list[TimelineStep] = msgspec.field(default_factory=list)
    compare: list[Variant] = msgspec.field(default_factory=list)
    matrix: dict[str, Annotated[list[Variant], Meta(min_length=1)]] = msgspec.field(
        default_factory=dict
    )
    faults: Literal["storm"] | FaultMix | None = None
    expect: list[Expectation] = msgspec.field(default_factory=list)
    report: ReportOptions = ReportOptions()

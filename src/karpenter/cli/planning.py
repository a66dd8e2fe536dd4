"""What ``plan`` and ``explain`` ask the planner: the same question, put together in one place."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from karpenter.cli import output

if TYPE_CHECKING:
    from karpenter.cloud.types import InstanceType, ProviderFacts
    from karpenter.scheduling.provisioning import PassSettings, ProvisioningPlan
    from karpenter.scheduling.solve import Witness
    from karpenter.settings import Settings
    from karpenter.state.snapshot import Snapshot

InstanceTypes: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--instance-types",
        metavar="FILE",
        help="Machines to choose from, as a JSON list; any kind of node class will do then.",
        show_default=False,
    ),
]
Provider: TypeAlias = Annotated[
    str, typer.Option(metavar="NAME", help="Whose machines to choose from: kwok.")
]
Assignments: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting of the controller, such as PREFERENCE_POLICY=Ignore; may be repeated.",
        show_default=False,
    ),
]
Now: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="The moment to plan for, such as 2026-08-01T12:00:00Z, in place of the present.",
        show_default=False,
    ),
]
TimeBudget: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Stop planning after that long, such as 10s, and say which pods were not looked at.",
        show_default=False,
    ),
]

PROVIDERS: Final = ("kwok",)
# feature gate -> the objects that are of no effect while it is off
_GATED: Final = {
    "NodeOverlay": "NodeOverlays",
    "CapacityBuffer": "CapacityBuffers",
    "StaticCapacity": "NodePools with replicas",
}


@dataclass(frozen=True, slots=True)
class Question:
    """A cluster, what can be had, and the settings to plan with."""

    snapshot: "Snapshot"
    types: "tuple[InstanceType, ...]"
    facts: "ProviderFacts"
    settings: "PassSettings"
    now: datetime
    time_budget: float | None = None  # seconds

    def answer(self, witness: "Witness | None" = None) -> "ProvisioningPlan":
        """Plan one pass; a ``witness`` is shown what the plan was made from."""
        from karpenter.scheduling.provisioning import plan_provisioning

        return plan_provisioning(
            self.snapshot,
            lambda pool: self.types,
            self.facts,
            self.settings,
            now=self.now,
            has_time=_stopwatch(self.time_budget),
            witness=witness,
        )


def question(
    names: Sequence[str],
    *,
    recursive: bool,
    instance_types: str | None,
    provider: str,
    assignments: Sequence[str],
    now: str | None,
    time_budget: str | None = None,
) -> Question:
    """Read everything a plan depends on, or say in one sentence what is wrong with it."""
    if provider not in PROVIDERS:
        output.fail(
            f"no provider is called {provider} so far: use {' or '.join(PROVIDERS)}, with"
            " --instance-types FILE for the machines of another cloud"
        )
    moment = _moment(now)
    seconds = _seconds(time_budget)
    settings, gates_are_set = _settings(assignments)
    types, facts = _catalogue(instance_types)
    if not names:
        output.fail(
            "planning for a live cluster is not possible so far: name the files or folders that"
            " hold its manifests, or - for standard input (see --help)"
        )

    from karpenter.cli.cluster_files import load_cluster

    snapshot = load_cluster(names, recursive=recursive, provider=provider)
    opened = _with_gates_for(snapshot, settings, gates_are_set=gates_are_set)
    _point_out_foreign_pools(snapshot, facts)
    return Question(snapshot, types, facts, _pass_settings(opened), moment, seconds)


def _stopwatch(seconds: float | None) -> Callable[[], bool]:
    if seconds is None:
        return lambda: True
    deadline = time.monotonic() + seconds
    return lambda: time.monotonic() < deadline


def _moment(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        output.fail(f"--now: {text!r} is not a time with a zone such as 2026-08-01T12:00:00Z")
    return moment


def _seconds(text: str | None) -> float | None:
    from karpenter.admission.durations import go_duration

    if text is None:
        return None
    nanoseconds = go_duration(text)
    if nanoseconds is None or nanoseconds < 0:
        output.fail(f"--time-budget: {text!r} is not a duration such as 10s or 1m30s")
    return nanoseconds / 1e9


def _settings(assignments: Sequence[str]) -> "tuple[Settings, bool]":
    from karpenter.settings import SettingError, Settings, with_assignments

    pairs = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not (name and equals):
            output.fail(f"--set: {assignment!r} is not of the form NAME=VALUE")
        pairs[name.upper().replace("-", "_")] = value
    try:
        return with_assignments(Settings(), pairs), "FEATURE_GATES" in pairs
    except SettingError as error:
        output.fail(f"--set: {error}")


def _catalogue(file: str | None) -> "tuple[tuple[InstanceType, ...], ProviderFacts]":
    from karpenter.cloud.kwok import catalogue
    from karpenter.cloud.kwok.entries import CatalogueError

    if file is None:
        return catalogue.built_in(), catalogue.FACTS
    try:
        types = catalogue.load(Path(file).read_bytes(), file)
    except CatalogueError as error:
        output.fail(str(error))
    except OSError as error:
        output.fail(f"{file}: {(error.strerror or str(error)).lower()}")
    return types, replace(catalogue.facts_about(types), node_classes=())


def _pass_settings(settings: "Settings") -> "PassSettings":
    from karpenter.scheduling.problem import Options
    from karpenter.scheduling.provisioning import PassSettings
    from karpenter.scheduling.scheduler_config import SchedulerConfigError, parse_scheduler_config

    gates = settings.feature_gates
    try:
        constraints = parse_scheduler_config(settings.scheduler_config)
    except SchedulerConfigError as error:
        output.fail(f"--set: {error}")
    return PassSettings(
        options=Options(
            respect_preferences=settings.preference_policy == "Respect",
            best_effort_min_values=settings.min_values_policy == "BestEffort",
            ignore_device_claims=settings.ignore_dra_requests,
            reserved_capacity=gates["ReservedCapacity"],
        ),
        overlays=gates["NodeOverlay"],
        buffers=gates["CapacityBuffer"],
        static=gates["StaticCapacity"],
        default_constraints=constraints,
    )


def _with_gates_for(
    snapshot: "Snapshot", settings: "Settings", *, gates_are_set: bool
) -> "Settings":
    """Switch on what the files make use of, unless the user says what is on; say so either way."""
    from karpenter.settings import FeatureGates

    used = {
        "NodeOverlay": bool(snapshot.node_overlays),
        "CapacityBuffer": bool(snapshot.capacity_buffers),
        "StaticCapacity": any(p.spec.replicas is not None for p in snapshot.node_pools.values()),
    }
    gates = settings.feature_gates
    wanted = [gate for gate, is_used in used.items() if is_used and not gates[gate]]
    if not wanted:
        return settings
    what = ", ".join(_GATED[gate] for gate in wanted)
    if gates_are_set:
        listed = ",".join(f"{gate}=true" for gate in wanted)
        output.note(f"note: {what} are left out, as FEATURE_GATES does not say {listed}")
        return settings
    listed = ",".join(f"{gate}=false" for gate in wanted)
    output.note(f"note: {what} are planned with; --set FEATURE_GATES={listed} leaves them out")
    opened = FeatureGates({**gates.gates, **dict.fromkeys(wanted, True)})
    return replace(settings, feature_gates=opened)


def _point_out_foreign_pools(snapshot: "Snapshot", facts: "ProviderFacts") -> None:
    """Tell whose pools all are of another cloud how to plan for them."""
    references = [pool.spec.template.spec.node_class_ref for pool in snapshot.node_pools.values()]
    kinds = {(reference.group, reference.kind) for reference in references}
    if not kinds or not facts.node_classes or kinds & set(facts.node_classes):
        return
    names = " and ".join(sorted({kind or "no kind" for _, kind in kinds}))
    output.note(
        f"note: pools of class {names} need --instance-types FILE, which says what machines there"
        f" are; the provider {facts.name} knows only its own"
    )

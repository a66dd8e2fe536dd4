"""The settings of the controller with their defaults, read and validated once.

A setting has one name, its environment variable; its flag is the same in lower case with dashes.
Text that cannot be read is refused with one sentence that names the setting, except that an
unreadable number, boolean or duration in the *environment* falls back to the default, as operators
of Karpenter are used to.
"""

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any, Final

from karpenter.model import cost_values, durations

DEFAULT_GATES: Final[Mapping[str, bool]] = {
    "NodeRepair": False,
    "ReservedCapacity": True,
    "SpotToSpotConsolidation": False,
    "NodeOverlay": False,
    "StaticCapacity": False,
    "CapacityBuffer": False,
    "TerminateFirstDrift": False,
    "TerminateFirstRepair": False,
    "PodDeletionCostManagement": False,
    "Commitments": False,
}
_BOOLEANS: Final = {"true": True, "false": False}
# The texts that Go's strconv.ParseBool accepts, in lower case
_LOOSE_BOOLEANS: Final = {"1": True, "t": True, "0": False, "f": False, **_BOOLEANS}
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


class SettingError(ValueError):
    """A setting that cannot be used; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class MinTypes:
    """The least number of instance types that a claim keeps."""

    on_demand: int  # when it would be launched on-demand
    spot: int


@dataclass(frozen=True, slots=True)
class Percentage:
    """A part of a whole."""

    percent: float


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Which optional features are on."""

    gates: Mapping[str, bool] = field(default_factory=lambda: DEFAULT_GATES)

    def __getitem__(self, name: str) -> bool:
        """Whether a feature is on; an unknown one is off."""
        return self.gates.get(name, False)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one controller."""

    metrics_port: int = 8080
    health_probe_port: int = 8081
    kube_client_qps: int = 200
    kube_client_burst: int = 300
    enable_profiling: bool = False
    dashboard_port: int = 0  # no dashboard
    dashboard_host: str = "127.0.0.1"
    dashboard_allow_host: str = ""  # names of it, separated by commas
    dashboard_token_file: str = ""
    dashboard_tls_cert: str = ""
    dashboard_tls_key: str = ""
    disable_leader_election: bool = False
    leader_election_name: str = "karpenter-leader-election"
    leader_election_namespace: str = ""
    disable_controller_warmup: bool = True
    disable_cluster_state_observability: bool = False
    metrics_detail: str = "object"
    memory_limit: int = -1
    cpu_requests: int = 1000
    log_level: str = "info"
    log_format: str = ""  # text on a terminal, and JSON elsewhere
    log_output_paths: str = "stdout"
    log_error_output_paths: str = "stderr"
    decision_log: str = ""  # a file that decision records are appended to
    notifications_config: str = ""  # a file that lists the receivers of notifications
    batch_max_duration: timedelta = timedelta(seconds=10)
    batch_idle_duration: timedelta = timedelta(seconds=1)
    preference_policy: str = "Respect"
    min_values_policy: str = "Strict"
    ignore_dra_requests: bool = True
    packing: str = "karpenter"
    packing_budget: timedelta = timedelta(seconds=1)
    packing_node_cost: float = 0.02  # dollars per hour that a node costs beside its price
    packing_min_types: MinTypes = MinTypes(5, 15)
    packing_price_slack: Percentage = Percentage(10)
    spot_interruption_cost: float = 0.0  # dollars that one interrupted machine costs
    rebalance: str = "Off"
    rebalance_moves: Percentage = Percentage(5)  # of all reschedulable pods, in any hour
    rebalance_payback: timedelta = timedelta(hours=24)
    rebalance_pod_cost: float = 0.02  # dollars that one unit of eviction cost stands for
    rebalance_cooldown: timedelta = timedelta(hours=1)
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    scheduler_config: str = ""
    webhook_port: int = 0  # no webhook
    karpenter_service: str = (
        ""  # the Service in front of the webhook; karpenter-webhook if not given
    )
    webhook_secret_name: str = ""  # that of the Service with -cert if not given
    webhook_certificates: str = "own"
    legacy_node_repair: bool = False
    # What Provisioners and AWSNodeTemplates on AWS leave to the settings of their controller
    legacy_node_role: str = ""
    legacy_instance_profile: str = ""
    legacy_ami_family: str = ""
    legacy_defaults: str = "late"
    early_binding: bool = False  # pods are bound to their nodes before these are ready


_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "metrics_detail": ("object", "pool"),
    "preference_policy": ("Respect", "Ignore"),
    "min_values_policy": ("Strict", "BestEffort"),
    "packing": ("karpenter", "cheapest"),
    "rebalance": ("Off", "Preview", "On"),
    "legacy_ami_family": ("AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022", ""),
    "legacy_defaults": ("early", "late"),
    "webhook_certificates": ("own", "external"),
    "log_level": ("debug", "info", "error", ""),
    "log_format": ("json", "text", ""),
}


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return name.upper()


def with_assignments(settings: Settings, assignments: Mapping[str, str]) -> Settings:
    """Return settings changed by ``NAME=VALUE`` pairs, where NAME is an environment variable.

    Raises:
        SettingError: when a name is unknown or a value cannot be read.
    """
    known = {variable_of(entry.name): entry.name for entry in fields(Settings)}
    changes: dict[str, Any] = {}
    for variable, text in assignments.items():
        name = known.get(variable.upper().replace("-", "_"))
        if name is None:
            near = difflib.get_close_matches(variable.upper(), known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingError(f"no setting is called {variable}{hint}")
        changes[name] = _read(name, text)
    asked = replace(settings, **changes)
    unknown = unknown_gates(asked.feature_gates)
    if unknown:
        raise SettingError(f"FEATURE_GATES: {unknown[0]}")
    return asked


def unknown_gates(gates: FeatureGates) -> list[str]:
    """A warning for each unknown gate, with a similar name if there is one.

    The controller accepts unknown gates and ignores them, as Karpenter does, so that an older
    version starts with the settings of a newer one.
    """
    said = []
    for name in sorted(gates.gates.keys() - DEFAULT_GATES.keys()):
        folded = {known.lower(): known for known in DEFAULT_GATES}
        near = difflib.get_close_matches(name.lower(), folded, n=1)
        hint = (
            f"did you mean {folded[near[0]]}?"
            if near
            else f"there are {', '.join(folded.values())}"
        )
        said.append(f"no feature gate is called {name}; {hint}")
    return said


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Read the settings an environment holds.

    Raises:
        SettingError: for a choice or feature gate that cannot be read; other unreadable values
            fall back to their defaults.
    """
    changes: dict[str, Any] = {}
    for entry in fields(Settings):
        text = environment.get(variable_of(entry.name))
        if text is None:
            continue
        try:
            changes[entry.name] = _read(entry.name, text)
        except SettingError:
            if entry.name in _CHOICES or entry.name == "feature_gates":
                raise
    return replace(Settings(), **changes)


def read_settings(environment: Mapping[str, str], flags: Mapping[str, str]) -> Settings:
    """Read the settings of a process: a flag overrides a variable, a variable a default.

    Args:
        environment: the environment variables.
        flags: the flags that were given, by the name of the setting, such as ``metrics_port``.

    Raises:
        SettingError: for a flag that cannot be read, or an impossible choice in the environment.
    """
    # The variable of a flag that is given is not read, so an invalid one does no harm
    hidden = {variable_of(name) for name in flags}
    shown = {name: text for name, text in environment.items() if name not in hidden}
    changes: dict[str, Any] = {}
    for name, text in flags.items():
        if type(getattr(Settings(), name)) is bool and text not in _BOOLEANS:
            raise SettingError(f"--{flag_of(name)}: {text!r} is neither true nor false")
        try:
            changes[name] = _read(name, text)
        except SettingError as error:
            said = str(error).removeprefix(f"{variable_of(name)}: ")
            raise SettingError(f"--{flag_of(name)}: {said}") from error
    return replace(from_environment(shown), **changes)


def flag_of(name: str) -> str:
    """The flag of a setting, without its dashes."""
    return name.replace("_", "-")


def parse_gates(text: str) -> FeatureGates:
    """Read ``Name=bool,Name=bool``; gates that are not named keep their defaults.

    Raises:
        SettingError: when a gate has no boolean.
    """
    gates = dict(DEFAULT_GATES)
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (word.strip() for word in part.partition("="))
        if value.lower() not in _LOOSE_BOOLEANS:
            raise SettingError(f"FEATURE_GATES: {name} needs true or false, not {value!r}")
        gates[name] = _LOOSE_BOOLEANS[value.lower()]
    return FeatureGates(gates)


def _read(name: str, text: str) -> object:
    variable = variable_of(name)
    choices = _CHOICES.get(name)
    if choices is not None and text not in choices:
        wanted = " or ".join(filter(None, choices))
        raise SettingError(f"{variable}: {text!r} is none of the choices; use {wanted}")
    reader = _READERS.get(type(getattr(Settings(), name)))
    if reader is None:
        return text
    try:
        return reader(text)
    except SettingError:
        raise
    except ValueError as error:
        raise SettingError(f"{variable}: {error}") from error


def _integer(text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _boolean(text: str) -> bool:
    if text.lower() not in _LOOSE_BOOLEANS:
        raise ValueError(f"{text!r} is neither true nor false")
    return _LOOSE_BOOLEANS[text.lower()]


def _min_types(text: str) -> MinTypes:
    return MinTypes(*cost_values.min_types(text))


def _percentage(text: str) -> Percentage:
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = math.nan
    if not (math.isfinite(percent) and percent >= 0):
        raise ValueError(f"{text!r} is not a percentage, 0% or more, such as 10%")
    return Percentage(percent)


def _duration(text: str) -> timedelta:
    length = durations.period(text)
    if length is None:
        raise ValueError(
            f"{text!r} is not a duration such as 10s or 1m30s, of numbers with the units h, m, s and ms"
        )
    return length


_READERS: Final[Mapping[type, Callable[[str], object]]] = {
    int: _integer,
    bool: _boolean,
    timedelta: _duration,
    float: cost_values.dollars,
    MinTypes: _min_types,
    Percentage: _percentage,
    FeatureGates: parse_gates,
}

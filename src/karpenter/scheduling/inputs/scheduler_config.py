"""The cluster scheduler's default spread, as given in the ``SCHEDULER_CONFIG`` setting.

Only one field of the scheduler's configuration is supported. Everything else is refused rather
than ignored, since a constraint that is silently not applied would show up as pods that the real
scheduler leaves pending.
"""

import json
from typing import Final

import msgspec

from karpenter.api.codec import convert_as
from karpenter.api.meta import Model
from karpenter.api.pods import TopologySpreadConstraint
from karpenter.api.problems import DecodeError
from karpenter.manifests import jsontext, yamltext
from karpenter.manifests.errors import ManifestError
from karpenter.manifests.text import check_printable
from karpenter.model.label_rules import label_key_problem
from karpenter.model.labels import normalise

SETTING: Final = "SCHEDULER_CONFIG"

_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES: Final = ("Honor", "Ignore")


class SchedulerConfigError(ValueError):
    """The setting cannot be used; the text is one sentence."""


class _Constraint(TopologySpreadConstraint, frozen=True, forbid_unknown_fields=True):
    pass


class _PodTopologySpread(Model, frozen=True, forbid_unknown_fields=True):
    default_constraints: tuple[_Constraint, ...] = ()


class _SchedulerConfig(Model, frozen=True, forbid_unknown_fields=True):
    pod_topology_spread: _PodTopologySpread = _PodTopologySpread()


def parse_scheduler_config(text: str) -> tuple[TopologySpreadConstraint, ...]:
    """Read the default constraints from YAML or JSON; an empty text has none.

    Raises:
        SchedulerConfigError: when a field is unknown or invalid.
    """
    seen: set[tuple[str, str]] = set()
    parsed = []
    for index, constraint in enumerate(_decoded(text).pod_topology_spread.default_constraints):
        where = f"podTopologySpread.defaultConstraints[{index}]"
        problem = _problem(constraint)
        if problem is not None:
            raise SchedulerConfigError(f"{SETTING}: {where}.{problem}")
        identity = (normalise(constraint.topology_key), constraint.when_unsatisfiable)
        if identity in seen:
            raise SchedulerConfigError(
                f"{SETTING}: {where} repeats topologyKey {constraint.topology_key}"
                f" with {constraint.when_unsatisfiable}; remove one of the two"
            )
        seen.add(identity)
        parsed.append(_plain(constraint))
    return tuple(parsed)


def _decoded(text: str) -> _SchedulerConfig:
    try:
        values = [value for value in _values(text) if value is not None]
    except ManifestError as error:
        raise SchedulerConfigError(str(error)) from error
    if not values:
        return _SchedulerConfig()
    if len(values) > 1:
        raise SchedulerConfigError(f"{SETTING}: expected one document, got {len(values)}")
    try:
        return convert_as(values[0], _SchedulerConfig)
    except DecodeError as error:
        raise SchedulerConfigError(f"{SETTING}: {error}") from error


def _values(text: str) -> list[object]:
    try:
        return [value for value, _ in jsontext.parse(text, SETTING)]
    except json.JSONDecodeError:
        check_printable(text, SETTING)
        return [document.value for document in yamltext.parse(text, SETTING)]


def _problem(constraint: _Constraint) -> str | None:
    """Which field is invalid; the sentence begins with its name."""
    if constraint.max_skew <= 0:
        return f"maxSkew must be greater than 0, not {constraint.max_skew}"
    key_problem = label_key_problem(constraint.topology_key)
    if key_problem is not None:
        return f"topologyKey {constraint.topology_key!r} {key_problem}"
    if constraint.min_domains is not None and constraint.min_domains <= 0:
        return f"minDomains must be greater than 0, not {constraint.min_domains}"
    if constraint.label_selector is not None:
        return "labelSelector must not be set; it follows from what a pod belongs to"
    if constraint.match_label_keys:
        return "matchLabelKeys must not be set; the selector follows from what a pod belongs to"
    return _choice_problem(constraint)


def _choice_problem(constraint: _Constraint) -> str | None:
    for field, value, choices in (
        ("whenUnsatisfiable", constraint.when_unsatisfiable, _ACTIONS),
        ("nodeAffinityPolicy", constraint.node_affinity_policy, _POLICIES),
        ("nodeTaintsPolicy", constraint.node_taints_policy, _POLICIES),
    ):
        if value not in choices:
            return f"{field} must be {' or '.join(choices)}, not {value!r}"
    return None


def _plain(constraint: _Constraint) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(**msgspec.structs.asdict(constraint))

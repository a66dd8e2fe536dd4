"""The settings of the controller beside a companion, as the environment of its Deployment has them.

Karpenter's chart and this project's put the label ``app.kubernetes.io/name`` on the Deployment, and
name its container ``controller``. Only variables that change plans are looked at: an environment may
hold anything, and nothing else of it is kept.
"""

import json
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

from karpenter.kube.errors import KubeError
from karpenter.kube.transport import Request, Transport
from karpenter.settings import (
    FeatureGates,
    SettingError,
    Settings,
    unknown_gates,
    with_assignments,
)

_PATH: Final = "/apis/apps/v1/deployments"
_SELECTOR: Final = (("labelSelector", "app.kubernetes.io/name=karpenter"),)
_CONTAINER: Final = "controller"
_GATES: Final = "FEATURE_GATES"
_PLANNED_WITH: Final = (
    _GATES,
    "PREFERENCE_POLICY",
    "MIN_VALUES_POLICY",
    "BATCH_IDLE_DURATION",
    "BATCH_MAX_DURATION",
    "PACKING",
    "PACKING_BUDGET",
    "PACKING_NODE_COST",
    "PACKING_MIN_TYPES",
    "PACKING_PRICE_SLACK",
    "REBALANCE",
    "REBALANCE_MOVES",
    "REBALANCE_PAYBACK",
    "REBALANCE_POD_COST",
    "REBALANCE_COOLDOWN",
    "SPOT_INTERRUPTION_COST",
)


async def deployment_settings(transport: Transport) -> dict[str, str]:
    """The settings of the controller's Deployment, by variable; none where it cannot be known."""
    try:
        answer = await transport.send(Request("GET", _PATH, _SELECTOR))
        if answer.status != HTTPStatus.OK:
            return {}
        listed = json.loads(answer.body)["items"]
        found = [environment for item in listed for environment in _environments(item)]
    except (KubeError, TimeoutError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    # Two controllers may have been told different things, and only one of them leads
    return _usable(found[0]) if found and all(each == found[0] for each in found) else {}


def _environments(deployment: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """What each controller of a Deployment was told."""
    for container in deployment["spec"]["template"]["spec"]["containers"]:
        if container["name"] != _CONTAINER:
            continue
        told = {each["name"]: each.get("value") for each in container.get("env") or ()}
        yield {name: told[name] for name in _PLANNED_WITH if isinstance(told.get(name), str)}


def _usable(told: Mapping[str, str]) -> dict[str, str]:
    """What this version knows of it: a controller of another one may have other gates and values."""
    found = {}
    for name, value in told.items():
        text = _known_gates(value) if name == _GATES else value
        try:
            with_assignments(Settings(), {name: text})
        except SettingError:
            continue
        if text:
            found[name] = text
    return found


def _known_gates(text: str) -> str:
    pairs = [each.strip() for each in text.split(",")]
    return ",".join(
        each
        for each in pairs
        if each and not unknown_gates(FeatureGates({each.partition("=")[0]: True}))
    )

"""Defaults of pods, and of the templates that workloads make pods from."""

from decimal import Decimal
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.model.quantity import canonical, millis, parse
from karpenter_sandbox.kinds.defaults.filling import each, filled, within

_FILE_MODE: Final = 0o644
_HOUR: Final = 3600
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")


def pod(obj: JsonObject) -> JsonObject:
    """A complete pod."""
    return within(obj, "spec", _own_spec)


def template(obj: JsonObject) -> JsonObject:
    """A complete template of pods."""
    return within(obj, "spec", pod_spec)


def pod_spec(spec: JsonObject) -> JsonObject:
    """A complete specification of pods, as far as templates have it too."""
    spec = filled(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    for name in _CONTAINERS:
        spec = each(spec, name, _container)
    return each(spec, "volumes", _volume)


def claim_template(obj: JsonObject) -> JsonObject:
    """A complete claim inside another object."""
    return within(obj, "spec", lambda spec: filled(spec, volumeMode="Filesystem"))


def _own_spec(spec: JsonObject) -> JsonObject:
    """What pods have and templates do not."""
    spec = pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec = {**spec, "terminationGracePeriodSeconds": 1}
    for name in ("initContainers", "containers"):
        spec = each(spec, name, _with_requests)
        if spec.get("hostNetwork"):
            spec = each(spec, name, lambda item: each(item, "ports", _host_port))
    return filled(spec, enableServiceLinks=True)


def _container(container: JsonObject) -> JsonObject:
    container = filled(
        container,
        imagePullPolicy=_pull_policy(container.get("image", "")),
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
    )
    container = each(container, "ports", lambda port: filled(port, protocol="TCP"))
    container = each(container, "env", _variable)
    for name in _PROBES:
        container = within(container, name, _probe)
    container = within(container, "resources", _resources)
    return within(container, "lifecycle", _lifecycle)


def _resources(resources: JsonObject) -> JsonObject:
    for name in ("limits", "requests"):
        resources = within(resources, name, _rounded)
    return resources


def _rounded(amounts: JsonObject) -> JsonObject:
    """Amounts without what is finer than a thousandth, which nothing counts in."""
    return {name: _in_millis(amount) for name, amount in amounts.items()}


def _in_millis(amount: str) -> str:
    thousandths = millis(amount)
    # Compared, not divided: amounts have more digits than a Decimal reckons with
    if parse(amount) == Decimal(f"{thousandths}e-3"):
        return amount
    has_exponent = "e" in amount
    return canonical(f"{thousandths}e-3" if has_exponent else f"{thousandths}m")


def _pull_policy(image: str) -> str:
    """Always for an image that may change under its name."""
    name, at, _ = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or not (tag or at) else "IfNotPresent"


def _variable(variable: JsonObject) -> JsonObject:
    return within(variable, "valueFrom", _field_ref)


def _field_ref(source: JsonObject) -> JsonObject:
    return within(source, "fieldRef", lambda ref: filled(ref, apiVersion="v1"))


def _probe(probe: JsonObject) -> JsonObject:
    probe = within(probe, "httpGet", _http_get)
    probe = within(probe, "grpc", lambda action: filled(action, service=""))
    return filled(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)


def _lifecycle(lifecycle: JsonObject) -> JsonObject:
    for name in ("postStart", "preStop"):
        lifecycle = within(lifecycle, name, lambda hook: within(hook, "httpGet", _http_get))
    return lifecycle


def _http_get(action: JsonObject) -> JsonObject:
    return filled(action, path="/", scheme="HTTP")


def _with_requests(container: JsonObject) -> JsonObject:
    """A container with a limit but no request gets its limit as the request."""
    resources: dict[str, Any] = container.get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return container
    requests = {**limits, **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


def _host_port(port: JsonObject) -> JsonObject:
    return filled(port, hostPort=port.get("containerPort"))


def _volume(volume: JsonObject) -> JsonObject:
    if not volume.keys() - {"name"}:
        return {**volume, "emptyDir": {}}
    for name in ("secret", "configMap", "downwardAPI", "projected"):
        volume = within(volume, name, lambda source: filled(source, defaultMode=_FILE_MODE))
    volume = within(volume, "downwardAPI", lambda source: each(source, "items", _field_ref))
    volume = within(volume, "projected", lambda source: each(source, "sources", _projection))
    volume = within(volume, "hostPath", lambda source: filled(source, type=""))
    return within(
        volume, "ephemeral", lambda source: within(source, "volumeClaimTemplate", claim_template)
    )


def _projection(source: JsonObject) -> JsonObject:
    source = within(
        source, "serviceAccountToken", lambda token: filled(token, expirationSeconds=_HOUR)
    )
    return within(source, "downwardAPI", lambda part: each(part, "items", _field_ref))

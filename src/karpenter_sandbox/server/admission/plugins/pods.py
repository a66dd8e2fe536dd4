"""What the cluster adds to a new pod: an account, a priority, tolerations, a first status."""

from collections.abc import Iterator
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.model.quantity import parse
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.status import forbidden
from karpenter_sandbox.store.store import Key

_ACCOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
# A little more than an hour, so that a kubelet which renews hourly is never late
_TOKEN_SECONDS: Final = 3607
_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS: Final = 300
# They exist in every cluster, even before their objects are created
_SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_DEFAULT_ACCOUNT: Final = "default"
_QOS_RESOURCES: Final = ("cpu", "memory")


def completed(backend: Backend, pod: JsonObject) -> JsonObject:
    """A new pod with everything the cluster adds.

    Raises:
        ApiError: the pod refers to a priority or runtime class that does not exist.
    """
    pod = {**pod, "spec": pod.get("spec") or {}}
    pod = {**pod, "spec": _with_priority(backend, pod)}
    pod = {**pod, "spec": _with_overhead(backend, pod)}
    pod = {**pod, "spec": _with_account(backend, pod)}
    pod = {**pod, "spec": _with_tolerations(pod["spec"])}
    status: JsonObject = {"phase": "Pending", "qosClass": quality(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": None,
                "lastTransitionTime": backend.timestamp(),
            }
        ]
    return {**pod, "status": status}


def updated(pod: JsonObject) -> JsonObject:
    """A changed pod with what the cluster adds again if it is missing."""
    return {**pod, "spec": _with_tolerations(pod["spec"])} if pod.get("spec") else pod


def quality(spec: JsonObject) -> str:
    """The quality of service a pod gets: Guaranteed, Burstable or BestEffort."""
    if spec.get("resources"):
        amounts = [_amounts(spec["resources"])]
    else:
        containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
        amounts = [_amounts(container.get("resources") or {}) for container in containers]
    if all(not requests and not limits for requests, limits in amounts):
        return "BestEffort"
    is_guaranteed = all(
        set(limits) == set(_QOS_RESOURCES) and {**limits, **requests} == limits
        for requests, limits in amounts
    )
    return "Guaranteed" if is_guaranteed else "Burstable"


def _amounts(resources: JsonObject) -> tuple[dict[str, Any], dict[str, Any]]:
    found = []
    for name in ("requests", "limits"):
        listed = resources.get(name) or {}
        amounts = {key: parse(listed[key]) for key in _QOS_RESOURCES if key in listed}
        found.append({key: amount for key, amount in amounts.items() if amount > 0})
    return found[0], found[1]


def _with_priority(backend: Backend, pod: JsonObject) -> JsonObject:
    spec, name = dict(pod["spec"]), pod["spec"].get("priorityClassName", "")
    value, policy = 0, "PreemptLowerPriority"
    found = _priority_class(backend, name)
    if found is not None:
        spec["priorityClassName"] = found["metadata"]["name"]
        value = found.get("value", 0)
        policy = found.get("preemptionPolicy", policy)
    elif name in _SYSTEM_PRIORITIES:
        value = _SYSTEM_PRIORITIES[name]
    elif name:
        raise _refused(pod, f"no PriorityClass with name {name} was found")
    if spec.get("priority", value) != value:
        raise _refused(
            pod,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec;"
            f" priority admission controller computed {value} from the given PriorityClass name",
        )
    if spec.get("preemptionPolicy", policy) != policy:
        raise _refused(
            pod,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided"
            f" in pod spec; priority admission controller computed {policy} from the given"
            " PriorityClass name",
        )
    return {**spec, "priority": value, "preemptionPolicy": policy}


def _priority_class(backend: Backend, name: str) -> JsonObject | None:
    group, plural = "scheduling.k8s.io", "priorityclasses"
    if name:
        return backend.store.get(Key(group, plural, "", name))
    everybody = [found for found in backend.store.list(group, plural) if found.get("globalDefault")]
    return min(everybody, key=lambda found: found.get("value", 0), default=None)


def _with_overhead(backend: Backend, pod: JsonObject) -> JsonObject:
    spec: JsonObject = pod["spec"]
    name = spec.get("runtimeClassName")
    if not name:
        return spec
    found = backend.store.get(Key("node.k8s.io", "runtimeclasses", "", name))
    if found is None:
        raise _refused(pod, f'pod rejected: RuntimeClass "{name}" not found')
    overhead = (found.get("overhead") or {}).get("podFixed")
    return {**spec, "overhead": overhead} if overhead else spec


def _with_account(backend: Backend, pod: JsonObject) -> JsonObject:
    spec = dict(pod["spec"])
    name = spec.get("serviceAccountName") or _DEFAULT_ACCOUNT
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = backend.store.get(Key("", "serviceaccounts", pod["metadata"]["namespace"], name))
    if account is None and name != _DEFAULT_ACCOUNT:
        place = f"{pod['metadata']['namespace']}/{name}"
        problem = f'serviceaccount "{name}" not found'
        raise _refused(pod, f"error looking up service account {place}: {problem}")
    # Accepted without an account, unlike by a real server, while the namespace is new
    if account is None:
        return spec
    if spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True)):
        return _with_token(backend, spec)
    return spec


def _with_token(backend: Backend, spec: JsonObject) -> JsonObject:
    """Mount the account's token into every container that mounts nothing at its path."""
    volumes = spec.get("volumes") or []
    known = [v["name"] for v in volumes if v.get("name", "").startswith("kube-api-access-")]
    name = known[0] if known else backend.identity.name("kube-api-access-")
    mounted = False
    for part in ("initContainers", "containers"):
        containers = []
        for container in spec.get(part) or []:
            mounts = container.get("volumeMounts") or []
            if all(mount.get("mountPath") != _ACCOUNT_PATH for mount in mounts):
                mount = {"name": name, "readOnly": True, "mountPath": _ACCOUNT_PATH}
                container = {**container, "volumeMounts": [*mounts, mount]}  # noqa: PLW2901
                mounted = True
            containers.append(container)
        if containers:
            spec = {**spec, part: containers}
    if mounted and not known:
        spec = {**spec, "volumes": [*volumes, _token_volume(name)]}
    return spec


def _token_volume(name: str) -> JsonObject:
    namespace = {
        "path": "namespace",
        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
    }
    certificate = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return {
        "name": name,
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
                {"configMap": certificate},
                {"downwardAPI": {"items": [namespace]}},
            ],
        },
    }


def _with_tolerations(spec: JsonObject) -> JsonObject:
    """Add the default tolerations of the not-ready and unreachable taints, for five minutes."""
    known = spec.get("tolerations") or []
    added = list(_missing_tolerations(known))
    return {**spec, "tolerations": [*known, *added]} if added else spec


def _missing_tolerations(known: list[JsonObject]) -> Iterator[JsonObject]:
    for key in _TOLERATED:
        is_tolerated = any(
            toleration.get("key", "") in {key, ""}
            and toleration.get("effect", "") in {"NoExecute", ""}
            for toleration in known
        )
        if not is_tolerated:
            yield {
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": _TOLERATION_SECONDS,
            }


def _refused(pod: JsonObject, problem: str) -> Exception:
    return forbidden("", "pods", pod["metadata"].get("name", ""), problem)

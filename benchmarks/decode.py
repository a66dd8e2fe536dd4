"""How fast and how small pods are decoded, against ``json.loads`` on the same bytes.

Makes a list of pods as an API server sends it: server-side apply bookkeeping, environments,
probes, mounts, projected volumes, statuses; about 9 KB each. Names, images, sizes and constraints
vary with the number of the pod and with nothing else, so every run sees the same bytes.

Both sides run with the garbage collector on, as programs do. Times are the best of several rounds,
the two sides taking turns. Memory is what a fresh process holds more after decoding than before
(resident set, garbage collected, the input in memory both times): unlike a count of allocations it
includes what the allocator cannot give back. The peak is in the table too, but the ratio is taken
from what stays, which flatters us less.
"""

import argparse
import gc
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.options import options

from karpenter.api import codec
from karpenter.api.pods import Pod

Json = dict[str, Any]

ROOT = Path(__file__).parents[1]
TIME_TARGET = 1 / 5
MEMORY_TARGET = 1 / 3

DECODERS: dict[str, Callable[[bytes], object]] = {
    "json.loads": json.loads,
    "karpenter": lambda data: codec.decode_list(data, Pod),
}


def main() -> int:
    arguments = _arguments()
    if arguments.memory_of:
        print(json.dumps(_memory_here(arguments.memory_of, arguments.input)))
        return 0
    count, rounds = (200, 2) if arguments.smoke else (arguments.pods, arguments.rounds)
    data = pod_list(count, bare=arguments.bare)
    result = _measured(data, rounds) | {"pods": count, "bytes": len(data)}
    print(json.dumps(result, indent=2) if arguments.json else _table(result))
    # Two hundred pods are too few to judge by; a smoke run only proves that the program works.
    return 0 if arguments.smoke or _meets_targets(result) else 1


def _arguments() -> argparse.Namespace:
    parser = options("Measure decoding against json.loads.", smoke="few pods")
    parser.add_argument("--pods", type=int, default=10_000, help="how many pods (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="the best of how many (%(default)s)")
    parser.add_argument("--bare", action="store_true", help="pods without managedFields")
    parser.add_argument("--memory-of", choices=list(DECODERS), help=argparse.SUPPRESS)
    parser.add_argument("--input", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _measured(data: bytes, rounds: int) -> Json:
    seconds = {name: float("inf") for name in DECODERS}
    for _ in range(rounds):
        for name, decode in DECODERS.items():
            seconds[name] = min(seconds[name], _seconds(decode, data))
    memory = {name: _memory_in_a_child(name, data) for name in DECODERS}
    return {
        "seconds": seconds,
        "memory": memory,
        "timeRatio": seconds["karpenter"] / seconds["json.loads"],
        "memoryRatio": memory["karpenter"]["retained"] / memory["json.loads"]["retained"],
    }


def _seconds(decode: Callable[[bytes], object], data: bytes) -> float:
    gc.collect()
    start = time.perf_counter()
    decoded = decode(data)
    elapsed = time.perf_counter() - start
    del decoded
    return elapsed


def _memory_in_a_child(name: str, data: bytes) -> Json:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(data)
        file.flush()
        command = [sys.executable, "-m", "benchmarks.decode", "--memory-of", name]
        command += ["--input", file.name]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    measured: Json = json.loads(done.stdout)
    return measured


def _memory_here(name: str, source: Path) -> Json:
    data = source.read_bytes()
    decode = DECODERS[name]
    decode(pod_list(1))  # warm-up: builds the decoder, which is not measured
    gc.collect()
    before = _resident("VmRSS")
    decoded = decode(data)
    gc.collect()
    measured = {"retained": _resident("VmRSS") - before, "peak": _resident("VmHWM") - before}
    del decoded
    return measured


def _resident(field: str) -> int:
    """The resident set of this process in bytes, now or at its highest, as Linux counts it."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"cannot measure memory: /proc/self/status has no {field}; run this on Linux")


def _meets_targets(result: Json) -> bool:
    return bool(result["timeRatio"] <= TIME_TARGET and result["memoryRatio"] <= MEMORY_TARGET)


def _table(result: Json) -> str:
    each = result["bytes"] / result["pods"]
    lines = [
        f"{result['pods']} pods, {result['bytes'] / 1e6:.1f} MB of JSON, {each:.0f} bytes each",
        "",
        f"{'':12}{'time':>10}{'per pod':>12}{'retained':>12}{'peak':>12}",
    ]
    for name in DECODERS:
        seconds, memory = result["seconds"][name], result["memory"][name]
        lines.append(
            f"{name:12}{seconds:>8.3f} s{seconds / result['pods'] * 1e6:>9.1f} us"
            f"{memory['retained'] / 1e6:>9.1f} MB{memory['peak'] / 1e6:>9.1f} MB"
        )
    lines += [
        "",
        f"time   {_ratio(result['timeRatio'], TIME_TARGET)}",
        f"memory {_ratio(result['memoryRatio'], MEMORY_TARGET)}",
    ]
    return "\n".join(lines)


def _ratio(ratio: float, target: float) -> str:
    return f"{ratio:.3f} of json.loads (1/{1 / ratio:.1f}); the target is 1/{1 / target:.0f}"


def pod_list(count: int, *, bare: bool = False) -> bytes:
    """Return a ``PodList`` of ``count`` pods, compact as the API server sends it."""
    items = [_pod(number, bare=bare) for number in range(count)]
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "918273645"}}
    return json.dumps(body | {"items": items}, separators=(",", ":")).encode()


def _pod(number: int, *, bare: bool) -> Json:
    app = ("checkout", "catalogue", "search-indexer", "payments", "frontend", "mailer")[number % 6]
    day, hour, minute = 1 + number % 28, number % 24, number % 60
    created = f"2026-03-{day:02d}T{hour:02d}:{minute:02d}:{number * 7 % 60:02d}Z"
    spec = _spec(app, number)
    metadata = _metadata(app, number, created)
    status = _status(spec["containers"], number, created)
    if not bare:
        metadata["managedFields"] = _bookkeeping(metadata, spec, status)
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def _metadata(app: str, number: int, created: str) -> Json:
    template_hash = _digest(app, number // 40)[:10]
    replica_set = f"{app}-{template_hash}"
    team = ("storefront", "platform", "data", "identity")[number % 4]
    return {
        "name": f"{replica_set}-{_digest('pod', number)[:5]}",
        "generateName": f"{replica_set}-",
        "namespace": f"{team}-production",
        "uid": _uid("pod", number),
        "resourceVersion": str(910_000_000 + number * 7),
        "creationTimestamp": created,
        "labels": {
            "app.kubernetes.io/name": app,
            "app.kubernetes.io/instance": f"{app}-production",
            "app.kubernetes.io/version": f"2.{number % 17}.{number % 5}",
            "pod-template-hash": template_hash,
            "team": team,
        },
        "annotations": {
            "checksum/config": _digest(app, 0),
            "kubectl.kubernetes.io/restartedAt": created,
            "prometheus.io/port": "9102",
            "prometheus.io/scrape": "true",
        },
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": replica_set,
                "uid": _uid(replica_set, number // 40),
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def _bookkeeping(metadata: Json, spec: Json, status: Json) -> list[Json]:
    """The managedFields of server-side apply; atomic lists are one field."""
    whole = {"containerStatuses": None, "hostIPs": None, "podIPs": None}
    set_by = {
        "kube-controller-manager": {"metadata": metadata, "spec": spec},
        "kubelet": {"status": status | whole},
    }
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": metadata["creationTimestamp"],
            "fieldsType": "FieldsV1",
            "fieldsV1": _fields(fields),
        }
        for manager, fields in set_by.items()
    ]


def _fields(value: object) -> Json:
    """The keys of ``value`` without its values, in the notation of ``fieldsV1``."""
    if isinstance(value, dict):
        return {f"f:{key}": _fields(member) for key, member in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        key = next((key for key in ("name", "type", "uid") if key in value[0]), None)
        return {f'k:{{"{key}":"{item[key]}"}}': {".": {}} | _fields(item) for item in value if key}
    return {}


def _spec(app: str, number: int) -> Json:
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    spec: Json = {
        "volumes": [
            {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}},
            {
                "name": _token_volume(number),
                "projected": {"sources": [token, {"configMap": authority}], "defaultMode": 420},
            },
        ],
        "containers": [_container(app, "app", number)],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": app,
        "serviceAccount": app,
        "nodeName": f"ip-10-0-{number % 200}-{number % 251}.eu-west-1.compute.internal",
        "securityContext": {"fsGroup": 2000, "runAsNonRoot": True},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{state}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for state in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    same_app = {"matchLabels": {"app.kubernetes.io/name": app}}
    if number % 3 == 0:
        spec["containers"].append(_container("mesh-proxy", "proxy", number))
    if number % 4 == 0:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": same_app,
            }
        ]
    if number % 5 == 0:
        apart = {"labelSelector": same_app, "topologyKey": "kubernetes.io/hostname"}
        preferred = [{"weight": 100, "podAffinityTerm": apart}]
        spec["affinity"] = {
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        }
    if number % 10 == 0:
        claim = {"claimName": f"data-{app}-{number}"}
        spec["volumes"].append({"name": "data", "persistentVolumeClaim": claim})
    return spec


def _container(app: str, name: str, number: int) -> Json:
    memory = f"{128 * (1 + number % 8)}Mi"
    environment = {
        "LOG_LEVEL": "info",
        "DATABASE_HOST": f"{app}-db.shard-{number % 9}.svc.cluster.local",
        "CACHE_URL": f"redis://cache-{number % 9}.internal:6379/0",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector.monitoring:4317",
        "FEATURE_FLAGS": "new-cart,fast-search,dark-mode",
    }
    probe = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    return {
        "name": name,
        "image": f"registry.example.com/{app}:2.{number % 17}.{number % 5}",
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "resources": {
            "limits": {"memory": memory},
            "requests": {"cpu": f"{100 * (1 + number % 12)}m", "memory": memory},
        },
        "volumeMounts": [
            {"name": "config", "readOnly": True, "mountPath": "/etc/app"},
            {
                "name": _token_volume(number),
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            },
        ],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}} | probe,
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}} | probe,
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", "sleep 10"]}}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True},
    }


def _status(containers: list[Json], number: int, created: str) -> Json:
    host, address = f"10.0.{number % 200}.{number % 251}", f"10.64.{number // 256}.{number % 256}"
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    moment = {"status": "True", "lastProbeTime": None, "lastTransitionTime": created}
    return {
        "phase": "Running",
        "conditions": [{"type": name} | moment for name in types],
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": created,
        "containerStatuses": [
            {
                "name": container["name"],
                "state": {"running": {"startedAt": created}},
                "lastState": {},
                "ready": True,
                "restartCount": 0,
                "image": container["image"],
                "imageID": f"registry.example.com/app@sha256:{_digest(container['image'], 0)}",
                "containerID": f"containerd://{_digest(container['name'], number)}",
                "started": True,
                "allocatedResources": container["resources"]["requests"],
                "resources": container["resources"],
                "volumeMounts": container["volumeMounts"],
            }
            for container in containers
        ],
        "qosClass": "Burstable",
    }


def _token_volume(number: int) -> str:
    return f"kube-api-access-{_digest('token', number)[:5]}"


def _digest(text: str, number: int) -> str:
    return hashlib.sha256(f"{text}/{number}".encode()).hexdigest()


def _uid(text: str, number: int) -> str:
    digest = _digest(text, number)
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


if __name__ == "__main__":
    raise SystemExit(main())

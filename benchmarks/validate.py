"""How long it takes to check one object, as a whole and step by step.

The objects are what people write: a NodePool with eight requirements, taints, labels and budgets,
and an EC2NodeClass with selectors, volumes and tags. The first check of a kind also reads and
compiles its CRD; that is timed once, apart. All other times are the best of several rounds, each
the mean of many checks.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

from benchmarks.options import options

from karpenter.admission.cel.rules import RuleTree
from karpenter.admission.check import check
from karpenter.admission.errors import FieldError
from karpenter.admission.runtime import runtime_findings
from karpenter.admission.schemas.engine import CompiledVersion, builtin

Json = dict[str, Any]

TARGET_MILLISECONDS = 2.0


def main() -> int:
    arguments = _arguments()
    rounds, repeats = (1, 5) if arguments.smoke else (arguments.rounds, arguments.repeats)
    result = {obj["kind"]: _measured(obj, rounds, repeats) for obj in (node_pool(), node_class())}
    print(json.dumps(result, indent=2) if arguments.json else _table(result))
    # A handful of checks is too few to judge by; a smoke run only proves that the program works.
    return 0 if arguments.smoke or _meets_target(result) else 1


def _arguments() -> argparse.Namespace:
    parser = options("Measure the checking of objects.", smoke="few checks")
    parser.add_argument("--repeats", type=int, default=50, help="checks in a round (%(default)s)")
    parser.add_argument("--rounds", type=int, default=20, help="the best of how many (%(default)s)")
    return parser.parse_args()


def _measured(obj: Json, rounds: int, repeats: int) -> Json:
    start = time.perf_counter()
    version = builtin(obj["apiVersion"], obj["kind"])
    compile_seconds = time.perf_counter() - start
    if version is None:
        raise SystemExit(f"there is no CRD for {obj['kind']}")
    checked = check(obj)
    if checked.errors:
        raise SystemExit(f"the {obj['kind']} to measure is invalid: {checked.errors[0]}")
    steps = _steps(obj, version) | {"update": lambda: check(obj, checked.object)}
    microseconds = {
        name: min(_mean(step, repeats) for _ in range(rounds)) * 1e6 for name, step in steps.items()
    }
    return {
        "compileMilliseconds": compile_seconds * 1e3,
        "rules": len(version.rules.rules),
        "evaluations": _evaluations(version.rules.tree, checked.object),
        "microseconds": microseconds,
    }


def _steps(obj: Json, version: CompiledVersion) -> dict[str, Callable[[], object]]:
    known, _ = version.prune(obj)
    complete = version.default(known)
    nothing_wrong: list[FieldError] = []
    return {
        "prune": lambda: version.prune(obj),
        "default": lambda: version.default(known),
        "schema": lambda: version.validate(complete, rules=False),
        "rules": lambda: version.rules.errors(complete, None, nothing_wrong, is_ascii=True),
        "controller": lambda: runtime_findings(complete),
        "all": lambda: check(obj),
    }


def _evaluations(tree: RuleTree | None, value: object) -> int:
    """Count how many times rules run when an object is created."""
    if tree is None or value is None:
        return 0
    total = sum(not rule.needs_old for rule in tree.rules)
    if isinstance(value, dict):
        below = [(tree.properties.get(name, tree.values), part) for name, part in value.items()]
        return total + sum(_evaluations(branch, part) for branch, part in below)
    items = value if isinstance(value, list) else ()
    return total + sum(_evaluations(tree.items, item) for item in items)


def _mean(step: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    return (time.perf_counter() - start) / repeats


def _meets_target(result: Json) -> bool:
    slowest = max(kind["microseconds"]["all"] for kind in result.values())
    return bool(slowest <= TARGET_MILLISECONDS * 1e3)


def _table(result: Json) -> str:
    steps = list(next(iter(result.values()))["microseconds"])
    lines = [f"{'microseconds':16}" + "".join(f"{step:>12}" for step in steps)]
    for kind, figures in result.items():
        times = "".join(f"{figures['microseconds'][step]:>12.0f}" for step in steps)
        lines.append(f"{kind:16}{times}")
    lines.append("")
    for kind, figures in result.items():
        lines.append(
            f"{kind}: {figures['rules']} rules, evaluated {figures['evaluations']} times;"
            f" read and compiled in {figures['compileMilliseconds']:.0f} ms"
        )
    lines.append(f"the target is {TARGET_MILLISECONDS:.0f} ms for all")
    return "\n".join(lines)


def node_pool() -> Json:
    """Return a NodePool that uses most of what a NodePool can say."""
    requirements = [
        ("karpenter.k8s.aws/instance-category", "In", ["c", "m", "r"]),
        ("karpenter.k8s.aws/instance-generation", "Gt", ["4"]),
        ("karpenter.k8s.aws/instance-cpu", "In", ["4", "8", "16", "32"]),
        ("karpenter.k8s.aws/instance-hypervisor", "In", ["nitro"]),
        ("kubernetes.io/arch", "In", ["amd64", "arm64"]),
        ("kubernetes.io/os", "In", ["linux"]),
        ("karpenter.sh/capacity-type", "In", ["spot", "on-demand"]),
        ("topology.kubernetes.io/zone", "In", ["eu-west-1a", "eu-west-1b", "eu-west-1c"]),
    ]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "general", "labels": {"team": "platform"}},
        "spec": {
            "template": {
                "metadata": {
                    "labels": {"billing-team": "platform", "example.com/tier": "general"},
                    "annotations": {"example.com/owner": "platform"},
                },
                "spec": {
                    "nodeClassRef": {
                        "group": "karpenter.k8s.aws",
                        "kind": "EC2NodeClass",
                        "name": "default",
                    },
                    "taints": [
                        {"key": "example.com/dedicated", "value": "batch", "effect": "NoSchedule"}
                    ],
                    "startupTaints": [{"key": "example.com/agent", "effect": "NoExecute"}],
                    "expireAfter": "720h",
                    "terminationGracePeriod": "48h",
                    "requirements": [
                        {"key": key, "operator": operator, "values": values}
                        for key, operator, values in requirements
                    ],
                },
            },
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "1m",
                "budgets": [
                    {"nodes": "20%", "reasons": ["Empty", "Drifted"]},
                    {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h"},
                    {"nodes": "5"},
                ],
            },
            "limits": {"cpu": "1000", "memory": "1000Gi"},
            "weight": 10,
        },
    }


def node_class() -> Json:
    """Return an EC2NodeClass with selectors, volumes and tags."""
    discovery = {"karpenter.sh/discovery": "production"}
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "KarpenterNodeRole-production",
            "amiSelectorTerms": [{"alias": "al2023@v20250720"}],
            "subnetSelectorTerms": [{"tags": discovery}, {"id": "subnet-09fa4a0a8f233a921"}],
            "securityGroupSelectorTerms": [{"tags": discovery}, {"name": "cluster-nodes"}],
            "kubelet": {"maxPods": 110, "kubeReserved": {"cpu": "200m", "memory": "100Mi"}},
            "blockDeviceMappings": [
                {
                    "deviceName": "/dev/xvda",
                    "rootVolume": True,
                    "ebs": {"volumeSize": "100Gi", "volumeType": "gp3", "encrypted": True},
                },
                {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "200Gi", "volumeType": "gp3"}},
            ],
            "metadataOptions": {"httpPutResponseHopLimit": 2},
            "tags": {"team": "platform", "environment": "production"},
            "detailedMonitoring": True,
        },
    }


if __name__ == "__main__":
    raise SystemExit(main())

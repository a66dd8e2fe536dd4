"""How long the webhook takes for one ConversionReview of a thousand NodePools, each way.

From the bytes of the request to the bytes of the answer, without the network. The best of several
rounds.
"""

import json
import time
from typing import Any

import msgspec
from benchmarks.options import options

from karpenter.webhook.conversion_review import converted

Json = dict[str, Any]

TARGET_SECONDS = 1.0
_GROUP = "karpenter.sh"


def main() -> int:
    arguments = options("Measure the conversion of objects.", smoke="few objects").parse_args()
    count, rounds = (10, 1) if arguments.smoke else (1000, 5)
    old = [node_pool(number) for number in range(count)]
    new = converted(review(old, "v1"), _GROUP)["response"]["convertedObjects"]
    result = {"objects": count, "up": measured(old, "v1", rounds)}
    result["down"] = measured(new, "v1beta1", rounds)
    if arguments.json:
        print(json.dumps(result, indent=2))
    else:
        print(f"{count} NodePools to v1: {result['up']:.3f} s, back: {result['down']:.3f} s")
    is_met = max(result["up"], result["down"]) < TARGET_SECONDS
    return 0 if arguments.smoke or is_met else 1


def measured(objects: list[Json], version: str, rounds: int) -> float:
    """The seconds that a review takes."""
    body = msgspec.json.encode(review(objects, version))
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        answer = converted(msgspec.json.decode(body), _GROUP)
        msgspec.json.encode(answer)
        best = min(best, time.perf_counter() - began)
        if answer["response"]["result"]["status"] != "Success":
            raise SystemExit(answer["response"]["result"]["message"])
    return best


def review(objects: list[Json], version: str) -> Json:
    """A request of the API server."""
    request = {"uid": "1", "desiredAPIVersion": f"{_GROUP}/{version}", "objects": objects}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": request,
    }


def node_pool(number: int) -> Json:
    """A NodePool of v1beta1 as people write them."""
    requirements = [
        {"key": f"example.com/key-{index}", "operator": "In", "values": ["a", "b", "c"]}
        for index in range(8)
    ]
    reference = {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "a"}
    node = {
        "nodeClassRef": reference,
        "kubelet": {"maxPods": 20},
        "requirements": requirements,
        "taints": [{"key": "example.com/team", "value": "a", "effect": "NoSchedule"}],
    }
    return {
        "apiVersion": f"{_GROUP}/v1beta1",
        "kind": "NodePool",
        "metadata": {"name": f"pool-{number}", "uid": str(number), "generation": 1},
        "spec": {
            "template": {"metadata": {"labels": {"team": "a"}}, "spec": node},
            "disruption": {
                "consolidationPolicy": "WhenUnderutilized",
                "expireAfter": "720h",
                "budgets": [{"nodes": "10%"}],
            },
            "limits": {"cpu": "1000"},
        },
    }


if __name__ == "__main__":
    raise SystemExit(main())

"""Bursts of varied work: everything runs, and nothing is left when it is over."""

from typing import Any

import pytest

from helpers.autoscaler import Autoscaler, autoscaler, kwok_pool
from helpers.clusters import in_virtual_time
from karpenter_sandbox.kubelet.faults import Timing

SIZES = (("100m", "128Mi"), ("500m", "1Gi"), ("1", "4Gi"), ("2", "2Gi"), ("3500m", "14Gi"))


def job(number: int, pods: int) -> dict[str, Any]:
    """A Job of so many pods of one size."""
    cpu, memory = SIZES[number % len(SIZES)]
    container = {"name": "work", "image": "pause"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"work-{number}", "namespace": "default"},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {**container, "resources": {"requests": {"cpu": cpu, "memory": memory}}}
                    ],
                }
            },
        },
    }


@pytest.mark.storm
@pytest.mark.row("S0-55")
@in_virtual_time
async def test_500_pods_of_mixed_sizes_run_and_no_node_is_left_afterwards() -> None:
    disruption = {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}
    pool = kwok_pool("default", disruption=disruption)
    async with autoscaler(pool, timing=Timing(job=120.0)) as run:
        await run.apply(*(job(number, 50) for number in range(10)))

        await run.until(lambda: 500 == started(run), seconds=300)
        assert run.claims
        await run.until(lambda: not run.claims and not run.nodes, seconds=900)

        assert 500 == sum(pod["status"]["phase"] == "Succeeded" for pod in run.pods)


def started(run: Autoscaler) -> int:
    """How many pods run or have run."""
    phases = [pod.get("status", {}).get("phase") for pod in run.pods]
    return sum(phase in ("Running", "Succeeded") for phase in phases)

"""A launch that AWS denies is reported on the claim, and ``explain`` of a pod names the claim."""

import json
from pathlib import Path

import pytest

from helpers.autoscaler import Autoscaler, deployment
from helpers.aws_sandbox import aws_sandbox, ec2_pool
from helpers.commands import run as command
from karpenter.clock import run_virtual
from karpenter.cloud.aws.simulated.fault_injection import InjectedFault, enact
from karpenter_sandbox.conditions import find_condition

KINDS = [
    ("karpenter.sh", "nodepools"),
    ("karpenter.sh", "nodeclaims"),
    ("karpenter.k8s.aws", "ec2nodeclasses"),
    ("", "pods"),
]


def write(run: Autoscaler, file: Path) -> None:
    """Write the cluster as ``kubectl get -o json`` would show it."""
    items = [each for kind in KINDS for each in run.objects(*kind)]
    text = {"apiVersion": "v1", "kind": "List", "items": items}
    file.write_text(json.dumps(text), "utf-8")


def is_ready(run: Autoscaler) -> bool:
    (node_class,) = run.objects("karpenter.k8s.aws", "ec2nodeclasses")
    ready = find_condition(node_class, "Ready")
    return ready is not None and ready["status"] == "True"


async def denied(action: str, file: Path) -> tuple[str, str, str]:
    """The pod and the claim of a launch that was denied, and what the claim says."""
    async with aws_sandbox(ec2_pool()) as box:
        run = box.run
        await run.until(lambda: is_ready(run))
        enact([InjectedFault("denied", action)], box.account.faults)
        await run.apply(deployment("web", 1))
        await run.until(lambda: bool(run.claims))
        await run.pass_time(20)
        write(run, file)
        (pod,), (claim,) = run.pods, run.claims
        launched = find_condition(claim, "Launched")
        assert launched is not None
        assert ("Unknown", "Unauthorized") == (launched["status"], launched["reason"])
        return pod["metadata"]["name"], claim["metadata"]["name"], launched["message"]


@pytest.mark.parametrize("action", ["CreateFleet", "RunInstances"])
def test_explain_pod_names_what_the_claim_says(
    action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "500")

    file = tmp_path / "cluster.json"
    pod, claim, message = run_virtual(denied(action, file))

    told = command("explain", "pod", pod, str(file), "--provider", "aws")

    assert 0 == told.code, told.err
    assert "waits for another pass" in told.out
    why = f"{claim}: Launched is Unknown (Unauthorized: {message})"
    assert f"nothing is planned before NodeClaim {claim} has launched ({why})" in told.out

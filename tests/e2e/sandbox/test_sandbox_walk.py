"""The main job as people try it first: ``karpenter sandbox`` as a process, and plain ``kubectl``."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers.real_cluster import Kubectl, sandbox_process, until
from helpers.scale_walk import EXAMPLE, FIXED, LIFE_OF_A_CLAIM

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl")]

PATIENCE = 60.0
WALK = (
    *("--instance-types", str(EXAMPLE / "instance-types.json")),
    *("--load", str(EXAMPLE / "cluster.yaml")),
    *("--speed", "10"),
)


@contextmanager
def sandbox(folder: Path, *options: str) -> Iterator[Kubectl]:
    """A sandbox with its controllers, for as long as a block runs."""
    kubeconfig = folder / "kubeconfig"
    log = folder / "sandbox.log"
    command = [sys.executable, "-m", "karpenter", "sandbox", "--kubeconfig", str(kubeconfig)]
    with log.open("wb") as out:
        process = subprocess.Popen([*command, *options], stdout=out, stderr=subprocess.STDOUT)
    with sandbox_process(process, kubeconfig, log) as program:
        yield program


LOGS = ("logs", "-n", "karpenter", "-l", "app.kubernetes.io/name=karpenter", "-c", "controller")


@contextmanager
def followed(cluster: Kubectl, program: str, file: Path, *words: str) -> Iterator[None]:
    """Let ``kubectl`` follow something into a file, while a block runs."""
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    with file.open("wb") as out:
        process = subprocess.Popen([program, *words], stdout=out, env=environment)
    try:
        yield
        assert process.poll() is None, "kubectl goes on until it is stopped"
    finally:
        process.kill()
        process.wait()


def life(text: str) -> list[str]:
    """What lines of the log tell of claims, each thing once."""
    messages = [json.loads(line)["message"] for line in text.splitlines()]
    return list(dict.fromkeys(message for message in messages if message in LIFE_OF_A_CLAIM))


def placement(cluster: Kubectl, app: str) -> list[int]:
    """How many pods of an app run on each node, fewest first."""
    pods = cluster.items("pods", "-l", f"app={app}")
    nodes = [p["spec"].get("nodeName") for p in pods if p["status"].get("phase") == "Running"]
    return sorted(Counter(nodes).values())


def has_settled(cluster: Kubectl) -> bool:
    """Whether the machines take pods, and those that are there run."""
    nodes, pods = cluster.items("nodes"), cluster.items("pods")
    is_open = is_ready(cluster, "nodes") and not any("taints" in n["spec"] for n in nodes)
    return is_open and all(pod["status"].get("phase") == "Running" for pod in pods)


def types(cluster: Kubectl) -> list[str]:
    """What ``kubectl get nodes`` shows of the machines that were launched, by type."""
    shown = cluster("get", "nodes", "--no-headers", "-L", "node.kubernetes.io/instance-type")
    rows = [line.split() for line in shown.splitlines()]
    assert {"Ready"} == {row[1] for row in rows}
    return sorted(row[-1] for row in rows if row[0] != FIXED)


def steps(shown: str) -> dict[str, list[str]]:
    """What ``kubectl get node -w`` showed of each machine that was launched, repetitions aside."""
    found: dict[str, list[str]] = {}
    for name, status, *_ in (line.split() for line in shown.splitlines()):
        told = found.setdefault(name, [])
        if told[-1:] != [status]:
            told.append(status)
    del found[FIXED]
    return found


@pytest.mark.row(
    "S3-15", "S3-17", "S3-18", "S3-19", "S3-23", "S3-29", "S3-31", "S3-38", "S3-39", "S3-41"
)
@pytest.mark.parametrize("pool", ["provisioner.yaml", "nodepool.yaml"])
def test_the_scale_walk(tmp_path: Path, pool: str, kubectl: str) -> None:
    file = tmp_path / "watched"
    watch = ("get", "node", "-w", "--no-headers")
    with sandbox(tmp_path, *WALK) as cluster, followed(cluster, kubectl, file, *watch):
        # A pod that comes before the fixed machine is ready would get one of its own
        until(lambda: has_settled(cluster), "the fixed machine is ready", seconds=PATIENCE)
        until(lambda: FIXED in file.read_text("utf-8"), "kubectl watches", seconds=PATIENCE)
        cluster("apply", "-f", str(EXAMPLE / pool), "-f", str(EXAMPLE / "app.yaml"))
        until(lambda: [1] == placement(cluster, "app"), "one pod runs", seconds=PATIENCE)
        assert ([], set()) == (types(cluster), cluster.names("nodeclaims"))

        cluster("scale", "deployment", "app", "--replicas=5")
        until(lambda: [1, 4] == placement(cluster, "app"), "1 and 4 pods run", seconds=PATIENCE)
        assert ["c4.xlarge"] == types(cluster)

        cluster("scale", "deployment", "app", "--replicas=20")
        until(lambda: [1, 7, 12] == placement(cluster, "app"), "1, 7, 12 run", seconds=PATIENCE)
        assert ["c4.xlarge", "t3a.2xlarge"] == types(cluster)
        assert 2 == len(cluster.names("nodeclaims"))

        cluster("scale", "deployment", "app", "--replicas=0")
        until(lambda: {FIXED} == cluster.names("nodes"), "empty nodes go", seconds=PATIENCE)
        until(lambda: not cluster.names("nodeclaims"), "their claims go", seconds=PATIENCE)
        life_of_a_node = ["Unknown", "NotReady", "Ready", "Ready,SchedulingDisabled"]
        until(
            lambda: [life_of_a_node] * 2 == list(steps(file.read_text("utf-8")).values()),
            "kubectl showed every step of both nodes",
            seconds=PATIENCE,
        )


def test_the_example_is_scaled_looked_at_and_loses_a_node(tmp_path: Path) -> None:
    with sandbox(tmp_path, "--nodes", "1", "--example") as cluster:
        cluster("scale", "deployment", "inflate", "--replicas=5")
        until(lambda: 5 == sum(placement(cluster, "inflate")), "5 pods run", seconds=PATIENCE)
        (claim,) = cluster.names("nodeclaims")
        columns = cluster("get", "nodeclaims").splitlines()[0].split()
        told = cluster("describe", "nodeclaim", claim)
        (node,) = cluster.names("nodes") - {"node-1"}

        cluster("delete", "node", node, "--timeout=60s")
        until(lambda: 5 == sum(placement(cluster, "inflate")), "5 pods run again", seconds=PATIENCE)
        after = cluster.names("nodes")
        claims_after = cluster.names("nodeclaims")

    assert ["NAME", "TYPE", "CAPACITY", "ZONE", "NODE", "READY", "AGE"] == columns
    for word in ("Launched", "Registered", "Initialized", "Provider ID:", node):
        assert word in told, word
    assert node not in after
    assert claim not in claims_after


@pytest.mark.row("S2-76")
def test_the_usual_logs_command_tells_the_life_of_a_claim(tmp_path: Path, kubectl: str) -> None:
    file = tmp_path / "followed"
    with sandbox(tmp_path, "--example", "--speed", "10") as cluster:
        until(lambda: "starting" in cluster(*LOGS), "the controllers start", seconds=PATIENCE)
        with followed(cluster, kubectl, file, *LOGS, "-f"):
            until(lambda: b"starting" in file.read_bytes(), "kubectl follows", seconds=PATIENCE)
            cluster("scale", "deployment", "inflate", "--replicas=3")
            until(lambda: b"initialized" in file.read_bytes(), "a node comes", seconds=PATIENCE)
        seen = file.read_text("utf-8")
        told = cluster(*LOGS, "--tail=-1")
        last = cluster(*LOGS, "--tail=1", "--timestamps")
        (pod,) = cluster.items("pods", "-l", "app.kubernetes.io/name=karpenter")
        shown = cluster("get", "pods", "-n", "karpenter", "--no-headers").split()

    assert LIFE_OF_A_CLAIM == life(seen) == life(told)
    assert told.startswith(seen)
    assert 1 == last.count("\n")
    assert json.loads(last.partition(" ")[2])
    assert ["1/1", "Running"] == shown[1:3]
    assert "nodeName" not in pod["spec"]


def test_a_provisioner_of_somebodys_own_account_is_honoured_on_the_simulated_one(
    tmp_path: Path,
) -> None:
    options = (
        "--cluster-name",
        "mz-karpenter",
        "--region",
        "ap-northeast-1",
        "--node-role",
        "mine",
    )
    with sandbox(tmp_path, "--provider", "aws", "--speed", "10", *options) as cluster:
        assert set() == cluster.names("ec2nodeclasses")  # so the Provisioner's class can be created
        cluster("apply", "-f", str(EXAMPLE / "provisioner.yaml"), "-f", str(EXAMPLE / "app.yaml"))

        until(lambda: placement(cluster, "app") == [1], "the pod runs", seconds=PATIENCE)
        (node_class,) = cluster.items("ec2nodeclasses")
        (node,) = cluster.items("nodes")

    assert "mine" == node_class["spec"]["role"]
    assert node["spec"]["providerID"].startswith("aws:///ap-northeast-1")


def test_a_simulated_aws_launches_instances_and_takes_one_back(tmp_path: Path) -> None:
    with sandbox(tmp_path, "--provider", "aws", "--example", "--speed", "10") as cluster:
        until(lambda: is_ready(cluster, "nodepools"), "the pool is ready", seconds=PATIENCE)
        cluster("scale", "deployment", "inflate", "--replicas=5")
        until(lambda: 5 == sum(placement(cluster, "inflate")), "5 pods run", seconds=PATIENCE)
        node = sorted(cluster.names("nodes"))[0]
        (shown,) = [n for n in cluster.items("nodes") if n["metadata"]["name"] == node]

        command = [sys.executable, "-m", "karpenter", "sandbox", "interrupt", node]
        subprocess.run([*command, "--kubeconfig", str(tmp_path / "kubeconfig")], check=True)
        until(lambda: node not in cluster.names("nodes"), "the node goes", seconds=PATIENCE)
        until(lambda: 5 == sum(placement(cluster, "inflate")), "5 pods run again", seconds=PATIENCE)

    assert node.startswith("ip-10-")
    assert "spot" == shown["metadata"]["labels"]["karpenter.sh/capacity-type"]
    assert shown["spec"]["providerID"].startswith("aws:///us-west-2")


def is_ready(cluster: Kubectl, kind: str) -> bool:
    """Whether all objects of a kind say that they are ready."""
    found = cluster.items(kind)
    conditions = [obj.get("status", {}).get("conditions", []) for obj in found]
    return bool(found) and all(
        any(c["type"] == "Ready" and c["status"] == "True" for c in held) for held in conditions
    )

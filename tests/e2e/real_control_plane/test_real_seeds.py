"""The seed manifests, unaltered, on a real API server with the CRDs and roles of the installation.

``kubectl apply`` takes what is good, a v1beta1 object is refused with a sentence that names
``karpenter convert``, what that makes of it is taken, Provisioners end in nodes of the kwok
provider, and what was converted ends in EC2 instances, with the rights of the controller's roles.
"""

import asyncio
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.real_cluster import RealCluster, controller, real_cluster, until
from helpers.rights import AWS as AWS_ROLES
from helpers.seeds import SEEDS, entries, load, needs_seeds, register_image
from karpenter.clock import SystemClock
from karpenter.cloud.aws.simulated.simulated_aws import SimulatedAws, running_simulated_aws
from karpenter.cloud.registry import ProviderContext
from karpenter.controllers.controllers import make_controllers
from karpenter.controllers.manager import Manager, Process
from karpenter.kube.access.config import load_config
from karpenter.kube.client import Client
from karpenter.kube.events import Recorder
from karpenter.kube.http import HttpTransport
from karpenter.settings import Settings
from karpenter.telemetry import Metrics, recording_logger

pytestmark = [
    pytest.mark.slow,
    needs_seeds,
    pytest.mark.usefixtures("kubectl", "control_plane_programs"),
]

PATIENCE = 300.0  # for a busy machine; a quiet one takes a tenth of it
CONVERT = ("--node-role", "nodes", "--default-node-class", "default")
LEGACY_ROLES = ("karpenter-legacy-kinds",)
OLD = ("karpenter.sh/v1beta1", "karpenter.k8s.aws/v1beta1")
# Without a webhook, alpha kinds are validated by their schema alone; other mistakes are reported
# in the Provisioner's conditions
ALPHA = ("karpenter.sh/v1alpha5", "karpenter.k8s.aws/v1alpha1")
# What of the last v1beta1 schema cannot be converted either, and the field that says so
INCONVERTIBLE = {
    "bad-s002-nodepool-full-semantics.yaml": "spec.limits.resources",
    "s002-nodepool-ttl.yaml": "spec.template",
    "s002-nodepool-limits.yaml": "spec.template",
}
NO_SUCH_KIND = {
    "bad-s002-ec2nodeclass.yaml": 'no matches for kind "EC2NodeClass"',
    "s002-eksctl-clusterconfig.yaml": 'no matches for kind "ClusterConfig"',
    "s003-eksctl-clusterconfig.yaml": 'no matches for kind "ClusterConfig"',
    "bad-s002-pod-do-not-disrupt-bool.yaml": "annotations",
}
# Excerpts that name no provider, and pools that ask for what the simulated machines have
POOLS = ("s003-provisioner-default.yaml", "s001-provisioner-labels.yaml")
WORKLOADS = (
    "s002-deployment-graceful-shutdown.yaml",
    "s002-deployment-workload-my-team.yaml",
    "s002-pdb-my-app.yaml",
    "s002-pod-do-not-disrupt.yaml",
)
PODS = 203
ROLE = "KarpenterNodeRole-karpenter-demo"
TEAM_WORKLOAD, TEAM_PODS = "s002-deployment-workload-my-team.yaml", 200
INSTANCE_TYPE = "node.kubernetes.io/instance-type"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with real_cluster(tmp_path_factory.mktemp("real"), audits=False, legacy=True) as made:
        yield made


def run(command: list[str], **kwargs: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE, **kwargs
    )


def apply(cluster: RealCluster, file: str, *, given: str | None = None, dry: bool = False) -> Any:
    """Apply a file, or what is given, and return how it went."""
    program = shutil.which("kubectl")
    assert program is not None
    options = ["--dry-run=server"] if dry else []
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    return run([program, "apply", *options, "-f", file], input=given, env=environment)


def test_every_file_is_taken_or_refused_with_the_reason(cluster: RealCluster) -> None:
    wrong = {}
    for entry in entries():
        name = entry["file"]
        done = apply(cluster, str(SEEDS / name), dry=True)
        words = refusal_of(entry)
        if words is None and done.returncode != 0:
            wrong[name] = done.stderr
        elif words is not None and (done.returncode == 0 or not re.search(words, done.stderr)):
            wrong[name] = f"not refused with {words}: {done.stdout}{done.stderr}"

    assert {} == wrong


def refusal_of(entry: dict[str, Any]) -> str | None:
    """What kubectl must say, or nothing where the API server takes the file."""
    name = entry["file"]
    if entry["parse"] == "error":
        return "error"
    if name in NO_SUCH_KIND:
        return re.escape(NO_SUCH_KIND[name])
    versions = {obj.get("apiVersion", "") for obj in load(name)}
    if not all(versions):
        return "apiVersion not set"
    if versions & set(OLD):
        return "is not served here.*karpenter convert"
    return None if entry["claimed"] == "accept" or versions & set(ALPHA) else "invalid"


def test_what_convert_makes_of_a_file_is_stored(cluster: RealCluster) -> None:
    wrong = {}
    for entry in entries():
        name = entry["file"]
        if entry["parse"] == "error" or not {o.get("apiVersion") for o in load(name)} & set(OLD):
            continue
        converted = run([sys.executable, "-m", "karpenter", "convert", *CONVERT, str(SEEDS / name)])
        if name in INCONVERTIBLE:
            if INCONVERTIBLE[name] not in converted.stderr or converted.stdout:
                wrong[name] = converted.stderr
            continue
        made = list(yaml.safe_load_all(converted.stdout))
        done = apply(cluster, "-", given=converted.stdout)
        stored = {
            each["metadata"]["name"]
            for kind in {each["kind"] for each in made}
            for each in cluster.items(kind)
        }
        if done.returncode or not made or not {o["metadata"]["name"] for o in made} <= stored:
            wrong[name] = done.stderr
    cluster("delete", "nodepools,ec2nodeclasses", "--all", "--wait=false")

    assert {} == wrong


def test_provisioners_end_in_nodes_for_the_workloads_of_the_seeds(cluster: RealCluster) -> None:
    with controller(cluster, cluster.account(roles=LEGACY_ROLES)) as process:
        process.until_leading()
        cluster("apply", "-f", "-", given=yaml.safe_dump(KWOK_CLASS))
        for name in (*POOLS, *WORKLOADS):
            cluster("apply", "-f", str(SEEDS / name))
        until(lambda: placed(cluster) == PODS, f"{PODS} pods have nodes", seconds=PATIENCE)
        nodes = cluster.items("nodes")
        assert 0 == process.stop()

    of_team = [n for n in nodes if n["metadata"]["labels"].get("billing-team") == "my-team"]
    assert of_team
    assert {"default", "foo-provisioner"} >= {
        node["metadata"]["labels"]["karpenter.sh/nodepool"] for node in nodes
    }


def test_a_nodepool_for_ec2_ends_in_instances_for_its_workload(tmp_path: Path) -> None:
    with real_cluster(tmp_path, audits=False) as cluster:
        nodes, instances = ec2_story(cluster)

    assert instances
    assert instances == {
        node["spec"]["providerID"].rpartition("/")[2]: node["metadata"]["labels"][INSTANCE_TYPE]
        for node in nodes
    }
    assert set(instances.values()) <= {"m5.xlarge", "m5.2xlarge", "c5.2xlarge"}


def ec2_story(cluster: RealCluster) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The nodes of the team's workload, and the types of the instances of the account."""
    files = ("s002-ec2nodeclass.yaml", "s002-nodepool-default-team.yaml")
    command = [sys.executable, "-m", "karpenter", "convert", *CONVERT]
    converted = run([*command, *(str(SEEDS / name) for name in files)])
    assert 0 == converted.returncode, converted.stderr
    cluster("apply", "-f", str(AWS_ROLES))
    cluster("apply", "-f", "-", given=converted.stdout)
    cluster("apply", "-f", str(SEEDS / TEAM_WORKLOAD))

    async def story() -> tuple[list[dict[str, Any]], dict[str, str]]:
        async with aws_controllers(cluster) as world:
            register_image(world.account)
            await asyncio.to_thread(
                until,
                lambda: of_team(cluster) == TEAM_PODS,
                "the team's pods run",
                seconds=PATIENCE,
            )
            nodes = await asyncio.to_thread(cluster.items, "nodes", "-l", "billing-team=my-team")
            instances = world.account.running()
        return nodes, {each["InstanceId"]: each["InstanceType"] for each in instances}

    return asyncio.run(story())


@asynccontextmanager
async def aws_controllers(cluster: RealCluster) -> AsyncIterator[SimulatedAws]:
    """Our controllers in this process, on a simulated AWS whose instances join the real cluster."""
    clock, rng, settings, metrics = SystemClock(), random.Random(0), Settings(), Metrics()
    async with AsyncExitStack() as stack:

        def client(kubeconfig: Path) -> Client:
            config = load_config({"KUBECONFIG": str(kubeconfig)})
            transport = HttpTransport(config, clock, user_agent="karpenter", environment={})
            stack.push_async_callback(transport.close)
            return Client(transport, clock)

        kubelets = client(cluster.kubeconfig)
        world = await stack.enter_async_context(
            running_simulated_aws(
                clock, kubelets, cluster="karpenter-demo", node_role=ROLE, boot_seconds=1
            )
        )
        world.account.gaps.types = frozenset({"m5.xlarge", "m5.2xlarge", "c5.2xlarge"})
        kube = client(cluster.account())
        log, lines = recording_logger()
        process = Process(
            kube=kube,
            cloud=world.make_provider(ProviderContext(kube, clock, settings, {}, rng, metrics)),
            clock=clock,
            settings=settings,
            recorder=Recorder(kube, clock, rng=rng),
            metrics=metrics,
            log=log,
            rng=rng,
        )
        running = asyncio.create_task(Manager(process, make_controllers).run())
        try:
            yield world
            assert not running.done(), lines[-5:]
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def of_team(cluster: RealCluster) -> int:
    """How many pods of the team's workload run."""
    pods = cluster.items("pods", "-l", "app=workload-my-team")
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


KWOK_CLASS = {
    "apiVersion": "karpenter.kwok.sh/v1alpha1",
    "kind": "KWOKNodeClass",
    "metadata": {"name": "default"},
    "spec": {},
}


def placed(cluster: RealCluster) -> int:
    """How many pods of the default namespace run on a node."""
    pods = cluster.items("pods", "--field-selector=metadata.namespace=default")
    return sum(pod["status"].get("phase") in {"Running", "Succeeded"} for pod in pods)

"""A companion under ``rbac-viewer.yaml`` on a real API server: it reads all it may, and writes nothing."""

import asyncio
import os
import random
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import pytest

from control_plane.access import service_account_kubeconfig
from e2e.dashboard.test_dashboard_command import dashboard
from helpers.real_cluster import NAMESPACE, RealCluster, real_cluster
from helpers.rights import INSTALL, documents, granted
from karpenter.clock import SystemClock
from karpenter.dashboard.sources import READ, FollowedCluster
from karpenter.kube.access.config import load_config
from karpenter.kube.http import HttpTransport
from karpenter.kube.kinds import resource_of
from karpenter.kube.read_only import ReadOnlyClient, ReadOnlyTransport
from karpenter.kube.transport import Request, Stream, Transport

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl", "control_plane_programs")]

VIEWER = INSTALL / "rbac-viewer.yaml"
ACCOUNT = "karpenter-dashboard"
METHODS = ("POST", "PUT", "PATCH", "DELETE")
READS = {"get", "list", "watch"}
# A line of "kubectl auth can-i --list": resource, URLs, names, verbs
GRANTED = re.compile(r"(?P<resource>[a-z.\d]*) +\[\] +\[[^]]*\] +\[(?P<verbs>[a-z ]+)\]")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A control plane with the CRDs and the viewer's role."""
    with real_cluster(tmp_path_factory.mktemp("companion")) as running:
        running("apply", "-f", str(VIEWER))
        yield running


class Watching(ReadOnlyTransport):
    """A transport that knows when so many watches have begun."""

    def __init__(self, transport: Transport, count: int) -> None:
        super().__init__(transport)
        self.begun: set[str] = set()
        self.are_all = asyncio.Event()
        self._count = count

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with super().stream(request) as stream:
            self.begun.add(request.path)
            if len(self.begun) == self._count:
                self.are_all.set()
            yield stream


def transport_of(kubeconfig: Path, stack: AsyncExitStack) -> HttpTransport:
    """A connection with the rights of a kubeconfig."""
    environment = {"KUBECONFIG": str(kubeconfig)}
    transport = HttpTransport(
        load_config(environment),
        SystemClock(),
        user_agent="karpenter-dashboard/test",
        environment=environment,
    )
    stack.push_async_callback(transport.close)
    return transport


async def followed(kubeconfig: Path) -> list[str]:
    """Follow a cluster until every kind was read; return the kinds that were refused."""
    async with AsyncExitStack() as stack:
        transport = transport_of(kubeconfig, stack)
        watching = Watching(transport, len(READ))
        kube = ReadOnlyClient(watching, SystemClock())
        cluster = FollowedCluster(kube, SystemClock(), rng=random.Random(1))
        running = asyncio.create_task(cluster.run())
        await asyncio.wait_for(cluster.reached(), 60)
        await asyncio.wait_for(watching.are_all.wait(), 60)
        refused = [str(kind) for kind in cluster.trouble if cluster.trouble[kind].is_refused]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return refused


async def answers(kubeconfig: Path) -> set[tuple[str, int]]:
    """Send a write of every method for every kind past our own client; return the statuses."""
    found = set()
    async with AsyncExitStack() as stack:
        transport = transport_of(kubeconfig, stack)
        for kind in READ:
            resource = resource_of(kind)
            at = resource.path("default" if resource.namespaced else "")
            for method in METHODS:
                one = f"{at}/any"
                for path in {"POST": (at,), "DELETE": (one, at)}.get(method, (one,)):
                    answer = await transport.send(Request(method, path, body=b"{}"))
                    found.add((method, answer.status))
    return found


@pytest.mark.case("DASH-37")
def test_a_companion_reads_every_kind_and_may_write_none(cluster: RealCluster) -> None:
    kubeconfig = service_account_kubeconfig(cluster.plane, NAMESPACE, ACCOUNT)

    assert asyncio.run(followed(kubeconfig)) == []
    own = [each for each in cluster.audit(ACCOUNT) if each.account == ACCOUNT]
    assert {each.verb for each in own} == {"list", "watch"}
    assert not [each for each in own if each.is_refused]
    read = {(each.group, each.resource) for each in own}
    (role,) = [each for each in documents(VIEWER) if "rules" in each]
    for rule in role["rules"]:
        resources = {(group, each) for group in rule["apiGroups"] for each in rule["resources"]}
        assert resources <= read

    assert asyncio.run(answers(kubeconfig)) == {
        (method, HTTPStatus.FORBIDDEN) for method in METHODS
    }
    listed = cluster("auth", "can-i", "--list", f"--as=system:serviceaccount:{NAMESPACE}:{ACCOUNT}")
    found = [GRANTED.fullmatch(line.rstrip()) for line in listed.splitlines()]
    verbs = {each["resource"]: set(each["verbs"].split()) for each in found if each is not None}
    for group, resource, _verb in granted(VIEWER):
        assert verbs.pop(f"{resource}.{group}" if group else resource, READS) == READS
    # What every account may do: ask who it is and what it may
    assert all("reviews" in resource for resource in verbs if resource)


ON_AWS = """
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: shop}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: shop}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: on-aws}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
---
apiVersion: v1
kind: Node
metadata:
  name: ip-10-0-0-1
  labels:
    karpenter.sh/nodepool: on-aws
    karpenter.sh/capacity-type: on-demand
    node.kubernetes.io/instance-type: m5.large
    topology.kubernetes.io/zone: eu-central-1a
spec: {providerID: aws:///eu-central-1a/i-0123456789abcdef0}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: karpenter, namespace: default, labels: {app.kubernetes.io/name: karpenter}}
spec:
  replicas: 0
  selector: {matchLabels: {app.kubernetes.io/name: karpenter}}
  template:
    metadata: {labels: {app.kubernetes.io/name: karpenter}}
    spec:
      containers:
      - name: controller
        image: controller
        env: [{name: PREFERENCE_POLICY, value: Ignore}, {name: PASSWORD, value: hunter2}]
"""


def test_a_cluster_on_aws_is_shown_at_estimates_without_credentials(
    cluster: RealCluster, tmp_path: Path
) -> None:
    manifests = tmp_path / "aws.yaml"
    manifests.write_text(ON_AWS, "utf-8")
    cluster("apply", "-f", str(manifests))
    kubeconfig = service_account_kubeconfig(cluster.plane, NAMESPACE, ACCOUNT)
    # Neither credentials nor a machine of EC2 to ask for some
    without = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    without |= {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}

    with dashboard("--kubeconfig", str(kubeconfig), "--no-open", environment=without) as page:
        about, costs = page.asked("about"), page.asked("costs?by=pool")
        code, said = page.stop()

    assert 0 == code
    assert "built-in estimates" in said
    assert about["prices"].startswith("The built-in estimates of aws")
    assert about["canPlan"]
    assert about["settingsFrom"].startswith(
        "Those in the environment of the controller's Deployment"
    )
    assert "Ignore" == about["settings"]["PREFERENCE_POLICY"]
    assert "hunter2" not in str(about)
    assert costs["hourly"] > 0
    assert costs["isEstimate"]
    assert 0 == costs["unpriced"]

"""``plan`` and ``explain`` on a cluster that runs: over real sockets, and without a single write."""

import asyncio
import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog

from control_plane.access import service_account_kubeconfig
from control_plane.cluster import ControlPlane, obstacle
from control_plane.cluster import control_plane as started_plane
from helpers.cluster_texts import SCHEMA, machine, node, pod, pool, running, text_of
from helpers.commands import Ran, run
from helpers.server import Cluster, cluster, manifest
from karpenter.admission.schemas.crds import builtin_crds
from karpenter.cloud.kwok.catalogue import built_in
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.cloud.provider import CloudError
from karpenter.cloud.registry import ProviderContext
from karpenter.kube import retry
from karpenter_sandbox.server.api import Request, Response
from karpenter_sandbox.server.http import Server, new_token, serving, write_kubeconfig
from karpenter_sandbox.server.resource_api import Answer
from third_party import MACHINES, REFERENCE, installed, machine_class_objects, ready

PATIENCE = 30.0
READ_ALL = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}
NODE_CLASS = manifest("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", "default", namespace=None)
EVERYTHING = {"budgets": [{"nodes": "100%"}], "consolidateAfter": "30s"}


class Doorman:
    """A proxy in front of a cluster that records requests and refuses some of them."""

    def __init__(self, made: Cluster) -> None:
        self.cluster = made
        self.seen: list[tuple[str, str]] = []
        self.limits: set[str] = set()
        self.forbidden: set[str] = set()
        self.broken: set[str] = set()
        self.odd: dict[str, Any] = {}  # kind -> an object added to its lists
        self.is_forgetful = False  # answers continue tokens with 410
        self.clock: datetime | None = None  # for the Date header, where it differs

    def now(self) -> datetime:
        return self.clock or datetime.now(UTC)

    def handle(self, request: Request) -> Answer:
        self.seen.append((request.method, request.path))
        self.limits.update(request.query.get("limit", ()))
        kind = request.path.rpartition("/")[2]
        if kind in self.forbidden:
            message = f'{kind} is forbidden: User "reader" cannot list resource "{kind}"'
            return answer(403, kind="Status", code=403, reason="Forbidden", message=message)
        if kind in self.broken:
            return answer(200, kind="List", items=[{"metadata": {"name": ["odd"]}}])
        if kind in self.odd:
            return answer(200, kind="List", items=[self.odd[kind]])
        if self.is_forgetful and "continue" in request.query:
            return answer(410, kind="Status", code=410, reason="Expired", message="too old")
        return self.cluster.api.handle(request)


def answer(status: int, **body: Any) -> Response:
    text = json.dumps({"apiVersion": "v1", **body}).encode()
    return Response(status, text, {"Content-Type": "application/json"})


@contextmanager
def served(doorman: Doorman, kubeconfig: Path) -> Iterator[None]:
    """Serve a cluster from a thread of its own while the block runs."""
    ready, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        made = Server(doorman, token=new_token(), now=doorman.now)  # type: ignore[arg-type]
        async with serving(made) as server:
            write_kubeconfig(server, kubeconfig)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE)
        loop.close()


def with_definitions() -> Cluster:
    made = cluster()
    for crd in builtin_crds().values():
        made.create(crd)
    return made


def fill(made: Cluster, *objects: dict[str, Any]) -> None:
    """Create objects with their status, as controllers leave them."""
    for each in objects:
        stored = made.create({key: value for key, value in each.items() if key != "status"})
        if each.get("status"):
            path = f"{made.path_of(each)}/status"
            answer = made.call("PUT", path, {**stored, "status": each["status"]})
            assert answer.status == 200, answer.body


@pytest.fixture
def doorman() -> Doorman:
    return Doorman(with_definitions())


@pytest.fixture
def live(
    doorman: Doorman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Ran]]:
    """Run the program against the cluster behind the door."""
    kubeconfig = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.delenv("CLOUD_PROVIDER", raising=False)
    with served(doorman, kubeconfig):
        yield run


def plan(ran: Ran) -> Any:
    assert 0 == ran.code, ran.err
    document = json.loads(ran.out)
    SCHEMA.validate(document)
    return document


def waiting(cpu: str = "1") -> dict[str, Any]:
    """A pod that the scheduler has found no node for."""
    made = pod("waits", cpu)
    made["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }
    return made


def busy(made: Cluster) -> None:
    """A pool with an empty node, one that is held, and a pod that waits."""
    wanted = pool(disruption=EVERYTHING)
    held = machine("n2", created="2020-01-01T00:00:00Z")
    held[1]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    fill(
        made,
        NODE_CLASS,
        wanted,
        *machine("n1", created="2020-01-01T00:00:00Z"),
        *held,
        running("web", "n2"),
        waiting("30"),
    )


def test_a_plan_reads_everything_and_writes_nothing(
    doorman: Doorman, live: Callable[..., Ran]
) -> None:
    busy(doorman.cluster)

    ran = live("plan", "-o", "json")

    document = plan(ran)
    (claim,) = document["provisioning"]["nodeClaims"]
    assert ["default/waits"] == claim["pods"]
    assert "DoNotDisrupt" in {each["reason"] for each in document["disruption"]["blocked"]}
    assert {"GET"} == {method for method, _ in doorman.seen}
    assert {"500"} == doorman.limits
    assert "" == ran.err
    asked = {path.rpartition("/")[2] for _, path in doorman.seen}
    assert {"pods", "nodes", "nodepools", "nodeclaims", "poddisruptionbudgets"} <= asked


@pytest.mark.parametrize(
    ("problem", "warnings"),
    [
        pytest.param(None, [], id="who answers"),
        pytest.param(
            CloudError("it rains"),
            ["warning: some prices are estimates, as they could not be asked for: it rains"],
            id="who does not",
        ),
    ],
)
def test_a_provider_is_asked_for_prices_and_nothing_it_logs_is_printed(
    problem: CloudError | None,
    warnings: list[str],
    doorman: Doorman,
    live: Callable[..., Ran],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy(doorman.cluster)
    asked: list[str] = []

    class Shop(KwokProvider):
        async def refresh_prices(self) -> None:
            structlog.get_logger().warning("looking for prices")
            asked.append("prices")
            if problem is not None:
                raise problem

    def shop(context: ProviderContext) -> Shop:
        return Shop(context.kube, context.clock, built_in())

    monkeypatch.setattr("karpenter.inquiry.live.load_provider", lambda name: shop)

    ran = live("plan", "-o", "json")

    plan(ran)
    assert (["prices"], warnings) == (asked, ran.warnings)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param("True", [["default/waits"]], id="ready"),
        pytest.param("False", [], id="not ready"),
    ],
)
def test_the_node_class_of_a_provider_that_nobody_knows_is_read(
    status: str,
    expected: list[list[str]],
    doorman: Doorman,
    live: Callable[..., Ran],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crd, racks = machine_class_objects()
    doorman.cluster.create(crd)
    wanted = pool()
    wanted["spec"]["template"]["spec"]["nodeClassRef"] = REFERENCE
    fill(doorman.cluster, {**racks, **ready(status, "NoPower")}, wanted, waiting())
    (tmp_path / "machines.yaml").write_text(MACHINES)
    monkeypatch.setenv("STATIC_MACHINES_FILE", str(tmp_path / "machines.yaml"))
    site = tmp_path / "site"
    site.mkdir()

    with installed(site):
        ran = live("plan", "--provider", "static", "-o", "json")

    made = plan(ran)["provisioning"]
    assert expected == [claim["pods"] for claim in made["nodeClaims"]]
    reasons = [each["reason"] for left in made["unplaced"] for each in left["reasons"]]
    assert ([] if expected else ["NodeClassNotReady"]) == reasons
    assert {"GET"} == {method for method, _ in doorman.seen}
    assert any(path.endswith("/machineclasses") for _, path in doorman.seen)


def test_explain_reads_the_cluster_too(doorman: Doorman, live: Callable[..., Ran]) -> None:
    busy(doorman.cluster)

    about_pod, about_node, about_pool = (
        live("explain", *words)
        for words in (["pod", "waits"], ["node", "n2"], ["nodepool", "general"])
    )

    assert about_pod.out.startswith("Pod default/waits goes to a new node\n")
    assert about_node.out.startswith("Node n2 stays\n")
    assert about_pool.out.startswith("NodePool general can make nodes\n")
    assert {"GET"} == {method for method, _ in doorman.seen}


def test_a_node_that_is_being_removed_is_left_to_whoever_removes_it(
    doorman: Doorman, live: Callable[..., Ran]
) -> None:
    going = machine("n1", created="2020-01-01T00:00:00Z")
    going[1]["spec"]["taints"] = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    fill(doorman.cluster, NODE_CLASS, pool(disruption=EVERYTHING), *going)

    document = plan(live("plan", "--only", "disruption", "-o", "json"))

    assert [] == document["disruption"]["commands"]
    assert ["Deleting"] == [each["reason"] for each in document["disruption"]["blocked"]]


def test_machines_of_a_file_are_for_pools_of_any_class(
    doorman: Doorman, live: Callable[..., Ran], tmp_path: Path
) -> None:
    busy(doorman.cluster)
    offering = {"zone": "z1", "capacityType": "on-demand", "price": 0.5, "available": True}
    kind = {
        "name": "huge",
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": "64", "memory": "256Gi", "pods": "110"},
        "offerings": [offering],
    }
    file = tmp_path / "types.json"
    file.write_text(json.dumps([kind]), "utf-8")

    document = plan(live("plan", "--instance-types", str(file), "-o", "json"))

    (claim,) = document["provisioning"]["nodeClaims"]
    assert ["huge"] == claim["instanceTypes"]


def test_what_may_not_be_read_is_one_line(doorman: Doorman, live: Callable[..., Ran]) -> None:
    busy(doorman.cluster)
    doorman.forbidden = {"services", "persistentvolumes", "resourceslices"}

    ran = live("plan", "-o", "json")

    plan(ran)
    (line,) = ran.err.splitlines()
    assert line.startswith("warning: planned as if there were none: you may not list ")
    assert line.endswith(" PersistentVolume, ResourceSlice, Service")


def test_without_pods_there_is_nothing_to_plan(doorman: Doorman, live: Callable[..., Ran]) -> None:
    doorman.forbidden = {"pods"}

    ran = live("plan")

    assert (1, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert ran.err.startswith("error: the cluster cannot be read: pods is forbidden")


@pytest.mark.parametrize("is_forgetful", [False, True], ids=["patient", "forgetful"])
def test_lists_are_read_to_their_end(
    is_forgetful: bool,
    doorman: Doorman,
    live: Callable[..., Ran],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("karpenter.inquiry.live._PAGE", 2)
    doorman.is_forgetful = is_forgetful
    fill(doorman.cluster, NODE_CLASS, pool(), *(node(f"n{n}") for n in range(5)))

    document = plan(live("plan", "-o", "json"))

    kept = [each["node"] for each in document["disruption"]["blocked"]]
    assert [f"n{n}" for n in range(5)] == kept
    assert {"2"} == doorman.limits


def test_an_object_that_cannot_be_read_is_one_sentence(
    doorman: Doorman, live: Callable[..., Ran]
) -> None:
    doorman.broken = {"services"}

    ran = live("plan")

    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert ran.err.startswith("error: the cluster has a Service that cannot be read: ")


def test_an_object_that_cannot_be_read_is_planned_without_and_named(
    doorman: Doorman, live: Callable[..., Ran]
) -> None:
    metadata = {"name": "odd", "namespace": "default", "resourceVersion": "1"}
    doorman.odd = {"services": {"metadata": metadata, "spec": 7}}
    fill(doorman.cluster, NODE_CLASS, pool())

    ran = live("plan", "-o", "json")

    plan(ran)
    assert ran.err.startswith("warning: planned without Service default/odd, which cannot be read")


def test_pods_that_name_a_provisioner_mean_its_pool(
    doorman: Doorman, live: Callable[..., Ran]
) -> None:
    waiting = pod("old", nodeSelector={"karpenter.sh/provisioner-name": "general"})
    waiting["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }
    spec = {"providerRef": {"name": "default"}}
    old = manifest("karpenter.sh/v1alpha5", "Provisioner", "general", namespace=None, spec=spec)
    fill(doorman.cluster, NODE_CLASS, pool(), old, waiting)

    document = plan(live("plan", "-o", "json"))

    assert [["default/old"]] == [claim["pods"] for claim in document["provisioning"]["nodeClaims"]]


def test_a_cluster_without_our_kinds_is_said_to_lack_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with served(Doorman(cluster()), tmp_path / "config"):
        ran = run("plan")

    assert 0 == ran.code
    assert ran.out.startswith("No node to create: no pod waits for one\n")
    assert [
        "warning: planned as if there were none: the cluster does not serve NodeClaim, NodePool"
    ] == ran.err.splitlines()


def test_manifests_laid_over_a_cluster_scale_what_runs_there(
    doorman: Doorman, live: Callable[..., Ran], tmp_path: Path
) -> None:
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod("web")["spec"]},
    }
    web = manifest("apps/v1", "Deployment", "web", spec=spec)
    runs = running("web-a", "n9", metadata={"labels": {"app": "web"}})
    fill(doorman.cluster, NODE_CLASS, pool(), node("n9", cpu="1"), web, runs)
    change = tmp_path / "change.yaml"
    change.write_text(text_of({**web, "spec": {**spec, "replicas": 3}}), "utf-8")

    document = plan(live("plan", "--with", str(change), "-o", "json"))

    assert {"GET"} == {method for method, _ in doorman.seen}
    assert ["default/web-0", "default/web-1"] == document["difference"]["pods"]["added"]
    assert [] == document["difference"]["pods"]["removed"]
    assert (0, 1) == (
        document["difference"]["nodesToCreate"]["before"],
        document["difference"]["nodesToCreate"]["after"],
    )


def test_an_unknown_node_is_one_sentence(doorman: Doorman, live: Callable[..., Ran]) -> None:
    busy(doorman.cluster)

    ran = live("explain", "node", "n3")

    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert "there is no node n3" in ran.err


def test_a_server_that_does_not_answer_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    kubeconfig = tmp_path / "config"
    entries = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    }
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "c", **entries}
    kubeconfig.write_text(json.dumps(config), "utf-8")
    monkeypatch.setattr(retry, "RETRIES", 0)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))

    ran = run("plan")

    assert (1, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert ran.err.startswith("error: the cluster cannot be read: ")
    assert f"127.0.0.1:{port}" in ran.err


@pytest.fixture
def untouched_plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane of its own: what other tests leave behind would be part of the plan."""
    problem = obstacle()
    if problem is not None:
        pytest.skip(problem)
    with started_plane(tmp_path) as plane:
        yield plane


@pytest.mark.slow
def test_a_real_control_plane_is_read_by_somebody_who_may_only_list(
    kubectl: str, untouched_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    control_plane = untouched_plane

    def apply(*objects: dict[str, Any]) -> None:
        ask("apply", "--server-side", "-f", "-", given=text_of(*objects))

    def ask(*words: str, given: str = "") -> None:
        done = subprocess.run(
            [kubectl, "--kubeconfig", str(control_plane.kubeconfig), *words],
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    definitions = list(builtin_crds().values())
    apply(*definitions)
    ask("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    waiting = pod("planned-for", "3")
    apply(NODE_CLASS, pool("live"), waiting)
    ask("wait", "--for=condition=PodScheduled=false", "pod/planned-for", "--timeout=60s")
    reader = service_account_kubeconfig(control_plane, "planners", "reader", [READ_ALL])
    monkeypatch.setenv("KUBECONFIG", str(reader))

    try:
        ran = run("plan", "-o", "json")

        claims = plan(ran)["provisioning"]["nodeClaims"]
        assert [["default/planned-for"]] == [claim["pods"] for claim in claims]
        assert run("explain", "nodepool", "live").out.startswith("NodePool live can make nodes\n")
    finally:
        ask("delete", "nodepool/live", "kwoknodeclass/default", "pod/planned-for", "--wait=false")


@pytest.mark.parametrize(
    ("hour", "is_active"),
    [
        pytest.param(9, True, id="within the window there, whatever time it is here"),
        pytest.param(12, False, id="outside of it"),
    ],
)
def test_a_plan_is_made_for_the_time_of_the_server(
    doorman: Doorman, live: Callable[..., Ran], hour: int, is_active: bool
) -> None:
    window = {"nodes": "0", "schedule": "0 9 * * *", "duration": "1h"}
    fill(doorman.cluster, NODE_CLASS, pool(disruption={**EVERYTHING, "budgets": [window]}))
    doorman.clock = datetime(2031, 1, 1, hour, 30, tzinfo=UTC)

    ran = live("explain", "nodepool", "general", "-o", "json")

    assert 0 == ran.code, ran.err
    (told,) = json.loads(ran.out)["disruption"]["budgets"]
    assert is_active == told["active"]


def test_the_aws_of_a_sandbox_is_the_simulated_one(
    doorman: Doorman, live: Callable[..., Ran]
) -> None:
    ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    fill(doorman.cluster, pool(nodeClassRef=ref))

    ran = live("explain", "nodepool", "general", "--provider", "aws", "-o", "json")

    assert 0 == ran.code, ran.err
    told = json.loads(ran.out)
    assert told["usable"]
    assert told["instanceTypes"]["possible"] > 500
    assert "of a simulated AWS account in us-west-2" in ran.err


EC2_REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
OTHER_REF = {"group": "example.com", "kind": "Other", "name": "default"}
KWOK_POOL = pool("simulated")
EC2_POOL = pool("amazon", nodeClassRef=EC2_REF)
OTHER_POOL = pool("other", nodeClassRef=OTHER_REF)
SIMULATED_ACCOUNT = "instance types are those of a simulated AWS account"


def pools_with_machines(told: dict[str, Any]) -> set[str]:
    return {claim["nodePool"] for claim in told["provisioning"]["nodeClaims"]}


@pytest.mark.parametrize(
    ("pools", "used", "is_aws"),
    [
        pytest.param([EC2_POOL], {"amazon"}, True, id="EC2NodeClass"),
        pytest.param([KWOK_POOL], {"simulated"}, False, id="KWOKNodeClass"),
        pytest.param([EC2_POOL, KWOK_POOL], {"simulated"}, False, id="as many of either"),
        pytest.param(
            [EC2_POOL, pool("amazon-2", nodeClassRef=EC2_REF), KWOK_POOL],
            {"amazon-2"},
            True,
            id="most pools decide",
        ),
        pytest.param([], set(), False, id="no pools"),
        pytest.param([OTHER_POOL], set(), False, id="a class nobody knows"),
    ],
)
def test_machines_are_those_of_the_node_classes_that_the_pools_name(
    doorman: Doorman,
    live: Callable[..., Ran],
    pools: list[dict[str, Any]],
    used: set[str],
    is_aws: bool,
) -> None:
    fill(doorman.cluster, NODE_CLASS, *pools, waiting())

    ran = live("plan", "-o", "json")
    told = plan(ran)
    reasons = {entry["pod"]: entry["reasons"] for entry in told["provisioning"]["unplaced"]}

    assert used == pools_with_machines(told)
    assert is_aws == (SIMULATED_ACCOUNT in ran.err)
    assert (set() if used else {"default/waits"}) == reasons.keys()
    for each in pools:
        name = each["metadata"]["name"]
        explained = live("explain", "nodepool", name, "-o", "json")
        assert 0 == explained.code, explained.err
        is_of_it = each["spec"]["template"]["spec"]["nodeClassRef"]["kind"] == (
            "EC2NodeClass" if is_aws else "KWOKNodeClass"
        )
        assert is_of_it == json.loads(explained.out)["usable"]


def test_the_variable_and_the_option_come_before_the_node_classes(
    doorman: Doorman, live: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(doorman.cluster, NODE_CLASS, KWOK_POOL, EC2_POOL, waiting())

    chosen = [pools_with_machines(plan(live("plan", "-o", "json", "--provider", "aws")))]
    monkeypatch.setenv("CLOUD_PROVIDER", "aws")
    chosen.append(pools_with_machines(plan(live("plan", "-o", "json"))))
    chosen.append(pools_with_machines(plan(live("plan", "-o", "json", "--provider", "kwok"))))

    assert [{"amazon"}, {"amazon"}, {"simulated"}] == chosen


def ways(told: dict[str, Any]) -> set[str]:
    return {claim["launch"]["capacityType"] for claim in told["provisioning"]["nodeClaims"]}


def annotate_class(made: Cluster, text: str, name: str = "sold-out-everywhere") -> None:
    path = made.path_of(NODE_CLASS)
    held = made.call("GET", path).body
    held["metadata"]["annotations"] = {f"karpenter.kwok.sh/{name}": text}
    assert 200 == made.call("PUT", path, held).status


def test_what_the_controller_was_told_is_sold_out_is_sold_out_here_too(
    doorman: Doorman, live: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KWOK_SOLD_OUT", raising=False)
    spot = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
    fill(doorman.cluster, NODE_CLASS, pool(), pool("cheap", requirements=[spot]), waiting())
    before = ways(plan(live("plan", "-o", "json")))

    annotate_class(doorman.cluster, "*/*/spot")
    after = ways(plan(live("plan", "-o", "json")))
    explained = live("explain", "nodepool", "cheap", "-o", "json")

    assert ({"spot"}, {"on-demand"}) == (before, after)
    excluded = json.loads(explained.out)["instanceTypes"]["excluded"]
    assert ["SoldOut"] == [each["reason"] for each in excluded]


def test_what_somebody_has_made_of_that_list_is_said(
    doorman: Doorman, live: Callable[..., Ran]
) -> None:
    fill(doorman.cluster, NODE_CLASS, pool(), waiting())
    annotate_class(doorman.cluster, "spot")

    told = live("plan").err

    what = "annotation karpenter.kwok.sh/sold-out-everywhere of KWOKNodeClass default: 'spot' names"
    assert what in told


def test_that_the_controller_has_machines_of_a_file_is_said(
    doorman: Doorman, live: Callable[..., Ran], tmp_path: Path
) -> None:
    fill(doorman.cluster, NODE_CLASS, pool(), waiting())
    annotate_class(doorman.cluster, "/etc/types.json", "instance-types-file")
    (tmp_path / "types.json").write_text("[]", "utf-8")

    told = live("plan").err
    with_it = live("plan", "--instance-types", str(tmp_path / "types.json")).err

    assert "warning: the controller chooses from the machines of /etc/types.json, and" in told
    assert "/etc/types.json" not in with_it


def test_what_sandbox_fault_has_sold_out_is_sold_out_here_too(
    doorman: Doorman, live: Callable[..., Ran]
) -> None:
    fill(doorman.cluster, EC2_POOL, waiting())
    before = plan(live("plan", "-o", "json"))
    troubles = manifest("v1", "ConfigMap", "aws-faults", namespace="karpenter")
    fill(doorman.cluster, manifest("v1", "Namespace", "karpenter", namespace=None))
    fill(
        doorman.cluster,
        {**troubles, "data": {"sold-out": "*/*/spot, nonsense", "lost-zone": "us-west-2a"}},
    )

    after = plan(live("plan", "-o", "json"))

    assert ({"spot"}, {"on-demand"}) == (ways(before), ways(after))
    zones = {claim["launch"]["zone"] for claim in after["provisioning"]["nodeClaims"]}
    assert zones
    assert "us-west-2a" not in zones

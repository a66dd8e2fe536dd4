"""A real control plane from nothing to 1,000 pods, and back by a third.

    python -m benchmarks endtoend            1,000 pods: about ten minutes
    python -m benchmarks endtoend --smoke    20 pods: that everything still runs
    python -m benchmarks endtoend --beside   Karpenter's own controller first, then ours
    python -m benchmarks endtoend --first small   the small pods come first, which takes more nodes
    python -m benchmarks endtoend --rebalance   what rebalancing saves once consolidation is at rest
    python -m benchmarks endtoend --json     figures for programs

kube-apiserver, kube-controller-manager and kube-scheduler are the real ones, kwok plays the
kubelets, and ``karpenter controller`` is a process with the rights of the installation. Two
Deployments of as many pods each are created, small and large ones, one as soon as the other has its
first pods: kube-controller-manager serves most of the one it turned to first before the other, and
who comes first decides how many nodes it takes, so that must not be left to chance. When all run
and the cluster is at rest, 3 pods of 10 go, and consolidation has its turn.

Beside the figures stand those of Karpenter's own controller: with ``--beside`` measured in the same
run on the same control plane (built from its published Go module), otherwise those it once had on such
a machine with such a workload.

With ``--rebalance`` teams share the cluster (``endtoend_rebalance.py``), and all machines are on-demand,
since spot replaces spot only behind a gate. When the cluster is at rest after the scale-in its price is
taken, and the controller starts again with ``REBALANCE=On``: what it saves then is what consolidation had
left, of the same pods on the same control plane. The limit of moves is lifted, the cooldown is a minute,
as the same moves would otherwise take many hours, and claims may keep a single type.
"""

import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks import endtoend_rebalance, peers
from benchmarks.endtoend_rebalance import Rebalanced, Team
from benchmarks.endtoend_report import KNOWN, Figures, Run, Theirs
from benchmarks.measuring import ROOT
from benchmarks.options import options
from benchmarks.peers import CONTROLLER, PeerController, built
from benchmarks.sampling import Sampler, Usage, sampling

from karpenter.cloud.kwok.provider import INSTANCE_TYPES_FILE_PATH
from karpenter.model import labels
from karpenter.model.quantity import millis

sys.path.insert(0, str(ROOT / "tests"))  # the control plane is a fixture of the tests
from control_plane.build import missing
from control_plane.cluster import obstacle
from helpers.real_cluster import Controller, RealCluster, controller, real_cluster, until

Json = dict[str, Any]

PODS: Final = 1000
SMOKE_PODS: Final = 20
LEAVING: Final = 0.3  # the share of the pods that go
SHAPES: Final = {"small": ("900m", "3100Mi"), "large": ("3500m", "28Gi")}
REQUIREMENTS: Final = (
    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
    {"key": "karpenter.kwok.sh/instance-size", "operator": "Lt", "values": ["32"]},
)
ON_DEMAND: Final = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [labels.ON_DEMAND]}
REBALANCING: Final = {
    "REBALANCE": "On",
    "REBALANCE_MOVES": "100%",
    "REBALANCE_COOLDOWN": "1m",
    "PACKING_MIN_TYPES": "1,1",
}
REBALANCING_SECONDS: Final = 600.0  # it is stopped then, at rest or not
BUDGET: Final = 0.10  # of the nodes may be disrupted at a time
CONSOLIDATE_AFTER: Final = 30.0
# consolidateAfter, and the seconds without a change of nodes that count as rest, before and after
# pods are deleted: a pass, its validation and the next pass take half a minute
PAUSES: Final = (CONSOLIDATE_AFTER, 90.0, 120.0)
REBALANCE_PAUSES: Final = (15.0, 30.0, 75.0)
SMOKE_PAUSES: Final = (5.0, 2.0, 5.0)
PATIENCE: Final = 900.0

_LAST: Final = "created nodeclaim"
_FOUND: Final = "found provisionable pod(s)"
_HELD_UP: Final = "event loop held up"
_BEGUN: Final = "disrupting node(s)"
_DISRUPTED: Final = "karpenter.sh/disrupted"


@dataclass(frozen=True, slots=True)
class Load:
    """The pods that come, half of each shape."""

    pods: int
    first: str  # the shape that comes first

    @property
    def each(self) -> int:
        """Pods of a shape."""
        return self.pods // 2

    @property
    def names(self) -> list[str]:
        """The shapes in the order in which they come."""
        return sorted(SHAPES, key=lambda name: name != self.first)


def main() -> int:
    parser = options("Measure a real cluster from nothing and back.", smoke="few pods")
    parser.add_argument(
        "--beside", action="store_true", help="measure Karpenter's own controller first (needs Go)"
    )
    parser.add_argument("--first", choices=SHAPES, default="large", help="which pods come first")
    parser.add_argument("--pods", type=int, default=0, help="how many pods, in all")
    parser.add_argument("--log", type=Path, help="keep the log of the controller in this file")
    parser.add_argument(
        "--rebalance", action="store_true", help="what rebalancing saves after the scale-in"
    )
    arguments = parser.parse_args()
    problem = _obstacle(may_build=not arguments.smoke, with_peer=arguments.beside)
    if problem:
        print(f"SKIPPED: nothing was measured end to end; {problem}", file=sys.stderr)
        return 0
    pods = arguments.pods or (SMOKE_PODS if arguments.smoke else PODS)
    if arguments.rebalance:
        rebalance_pauses = SMOKE_PAUSES if arguments.smoke else REBALANCE_PAUSES
        rebalanced = _rebalanced(endtoend_rebalance.teams(pods), rebalance_pauses)
        print(json.dumps(asdict(rebalanced), indent=2) if arguments.json else rebalanced.text)
        is_met = rebalanced.is_at_rest and rebalanced.hourly < rebalanced.hourly_without
        return 0 if is_met or arguments.smoke else 1
    load = Load(pods, arguments.first)
    pauses = SMOKE_PAUSES if arguments.smoke else PAUSES
    theirs = KNOWN if pods == PODS else None
    if arguments.beside:
        built(CONTROLLER)
        with _cluster(pauses[0]) as cluster, _theirs(cluster) as process:
            out, back = _measured(cluster, process, load, *pauses[1:])
        theirs = Theirs.measured(out), Theirs.measured(back)
    with _cluster(pauses[0]) as cluster, _ours(cluster) as process:
        run = Run(*_measured(cluster, process, load, *pauses[1:]), theirs)
        if arguments.log:
            arguments.log.write_text(process.text, encoding="utf-8")
    if arguments.json:
        print(json.dumps(asdict(run), indent=2))
    else:
        run.show()
    return 1 if run.missed() and not arguments.smoke else 0


def _obstacle(*, may_build: bool, with_peer: bool) -> str:
    absent = [program.name for program in missing()]
    if absent and not may_build:
        return f"{', '.join(absent)} are not built, see `make control-plane`"
    return obstacle() or (peers.obstacle() if with_peer else "")


@contextmanager
def _cluster(
    consolidate_after: float, requirements: Sequence[Json] = REQUIREMENTS
) -> Iterator[RealCluster]:
    with (
        tempfile.TemporaryDirectory(prefix="endtoend-") as folder,
        real_cluster(Path(folder), audits=False) as cluster,
    ):
        pool = node_pool(requirements, consolidate_after)
        cluster("apply", "-f", "-", given=json.dumps(list_of(*pool)))
        yield cluster


@contextmanager
def _ours(cluster: RealCluster) -> Iterator[Controller]:
    with controller(cluster, cluster.account(), LOG_LEVEL="debug") as process:
        process.until_leading()
        yield process


@contextmanager
def _theirs(cluster: RealCluster) -> Iterator[Controller]:
    """Karpenter's controller, with cluster-admin rights: its roles differ from ours."""
    process = PeerController(cluster.kubeconfig, cluster.plane.folder / "peer.log", {})
    try:
        until(lambda: bool(process.lines("Starting workers")), "Karpenter's controller", seconds=60)
        yield process
    finally:
        process.process.kill()
        process.process.wait()


def _measured(
    cluster: RealCluster, process: Controller, load: Load, quiet: float, quiet_at_last: float
) -> tuple[Figures, Figures]:
    with sampling(process.process.pid) as sampler:
        time.sleep(5)
        out = _scaled_out(cluster, process, sampler, load)
        _rest(cluster, quiet)
        back = _scaled_back(cluster, process, sampler, load, quiet_at_last)
        process.stop()
    return out, back


def _scaled_out(cluster: RealCluster, process: Controller, sampler: Sampler, load: Load) -> Figures:
    began = time.time()
    for name in load.names:
        wanted = deployment(name, load.each, *SHAPES[name])
        cluster("apply", "-f", "-", given=json.dumps(wanted))
        until(partial(_has_pods, cluster, name), f"the first pods of {name} are there", seconds=60)
    until(lambda: _ready(cluster) == load.pods, f"{load.pods} pods run", seconds=PATIENCE)
    ended = time.time()
    return _figures(cluster, process, sampler.between(began, ended), (began, ended), load.pods)


def _scaled_back(
    cluster: RealCluster, process: Controller, sampler: Sampler, load: Load, quiet: float
) -> Figures:
    began, before = time.time(), len(cluster.items("nodes"))
    each = load.each - round(load.each * LEAVING)
    for name in load.names:
        cluster("scale", "deployment", name, f"--replicas={each}")
    watch = _rest(cluster, quiet)
    until(lambda: _ready(cluster) == 2 * each, "all pods run again", seconds=PATIENCE)
    ended = max(watch.changed, began)
    usage = sampler.between(began, ended)
    return _figures(
        cluster,
        process,
        usage,
        (began, ended),
        2 * each,
        before=before,
        most_disrupted=watch.most_disrupted,
    )


def _rebalanced(wanted: Sequence[Team], pauses: tuple[float, float, float]) -> Rebalanced:
    requirements = (*REQUIREMENTS[:2], ON_DEMAND, *endtoend_rebalance.REQUIREMENTS)
    with _cluster(pauses[0], requirements) as cluster:
        file = cluster.plane.folder / "instance-types.json"
        file.write_text(endtoend_rebalance.instance_types_file(), encoding="utf-8")
        settings = {"LOG_LEVEL": "debug", INSTANCE_TYPES_FILE_PATH: str(file)}
        account, before = cluster.account(), sum(team.replicas for team in wanted)
        with controller(cluster, account, **settings) as process:
            process.until_leading()
            _teams_arrive(cluster, wanted)
            _rest(cluster, pauses[1])
            at_first = _bill(cluster)
            _note(f"before the scale-in: ${at_first[0]:.4f} per hour, {at_first[1]} nodes")
            began = time.time()
            pods = _teams_shrink(cluster, wanted)
            rest = _rest(cluster, pauses[2])
            until(lambda: _ready(cluster) == pods, "all pods run again", seconds=PATIENCE)
            process.stop()
        without, seconds = _bill(cluster), max(0.0, rest.changed - began)
        _note(
            f"at rest without it after {seconds:.0f} s: ${without[0]:.4f} per hour, {without[1]} nodes"
        )
        with controller(cluster, account, **settings, **REBALANCING) as process:
            process.until_leading()
            began = time.time()
            watch = _rest(cluster, pauses[2], REBALANCING_SECONDS)
            ended = time.time()
            until(lambda: _ready(cluster) == pods, "all pods run again", seconds=PATIENCE)
            lines = process.lines(_BEGUN)
            process.stop()
        rebalances = [line for line in lines if line["method"] == "rebalance"]
        hourly, nodes = _bill(cluster)
        return Rebalanced(
            pods_before=before,
            pods=pods,
            hourly_before=at_first[0],
            hourly_without=without[0],
            hourly=hourly,
            nodes_before=at_first[1],
            nodes_without=without[1],
            nodes=nodes,
            seconds_without=seconds,
            seconds=max(0.0, watch.changed - began),
            moved=sum(each["pod-count"] for each in rebalances),
            commands=len(rebalances),
            other_commands=len(lines) - len(rebalances),
            is_at_rest=ended - watch.changed > pauses[2],
        )


def _teams_arrive(cluster: RealCluster, wanted: Sequence[Team]) -> None:
    for team in wanted:
        made = deployment(team.name, team.replicas, team.cpu, team.memory)
        made["spec"]["template"]["spec"]["nodeSelector"] = {endtoend_rebalance.TEAM: team.name}
        cluster("apply", "-f", "-", given=json.dumps(made))
    pods = sum(team.replicas for team in wanted)
    until(lambda: _ready(cluster) == pods, f"{pods} pods run", seconds=PATIENCE)


def _teams_shrink(cluster: RealCluster, wanted: Sequence[Team]) -> int:
    """Let the same share of each team's pods go, and say how many stay."""
    arrived = gone = 0
    for team in wanted:
        arrived += team.replicas
        going = round(arrived * LEAVING) - gone
        gone += going
        cluster("scale", "deployment", team.name, f"--replicas={team.replicas - going}")
    return arrived - gone


def _bill(cluster: RealCluster) -> tuple[float, int]:
    """What all nodes cost an hour, and how many there are."""
    prices, nodes = endtoend_rebalance.prices(), cluster.items("nodes")
    kinds = (node["metadata"]["labels"][labels.INSTANCE_TYPE] for node in nodes)
    return sum(prices[kind] for kind in kinds), len(nodes)


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _figures(
    cluster: RealCluster,
    process: Controller,
    usage: Usage,
    span: tuple[float, float],
    pods: int,
    *,
    before: int = 0,
    most_disrupted: float | None = None,
) -> Figures:
    lines = [line for line in process.lines() if span[0] <= time_of(line) <= span[1]]
    held_up = [line for line in lines if line["message"] == _HELD_UP]
    return Figures(
        pods=pods,
        seconds=usage.seconds,
        nodes_before=before,
        nodes=len(cluster.items("nodes")),
        processor=usage.processor,
        memory=usage.memory,
        own_share=own_share(lines),
        stall=max((each["seconds"] for each in held_up), default=0.0),
        work=max((each["processor"] for each in held_up), default=0.0),
        reservation=_reservation(cluster),
        most_disrupted=most_disrupted,
    )


def own_share(lines: Sequence[Mapping[str, Any]]) -> float:
    """The longest time from the end of a batching window to the last claim made for it."""
    shares, began = [0.0], math.inf
    for line in lines:
        if line["message"] == _FOUND:
            began = time_of(line) - _seconds(line["duration"])
        elif line["message"] == _LAST:
            shares.append(time_of(line) - began)
    return max(shares)


@dataclass(slots=True)
class _Watch:
    """How the nodes have changed."""

    names: frozenset[str] = frozenset()
    changed: float = 0.0
    most_disrupted: float = 0.0

    def look(self, nodes: Sequence[Json]) -> None:
        names = frozenset(each["metadata"]["name"] for each in nodes)
        if names != self.names:
            self.names, self.changed = names, time.time()
        going = sum(map(_is_disrupted, nodes))
        if going:
            self.changed = time.time()
        allowed = math.ceil(BUDGET * len(nodes)) or 1
        self.most_disrupted = max(self.most_disrupted, going / allowed)


def _rest(cluster: RealCluster, quiet: float, longest: float = math.inf) -> _Watch:
    """Wait until no node has come, gone or been disrupted for a while, or for the longest time."""
    watch, ends = _Watch(changed=time.time()), time.time() + longest

    def is_quiet() -> bool:
        watch.look(cluster.items("nodes"))
        time.sleep(1)
        return time.time() - watch.changed > quiet or time.time() > ends

    until(is_quiet, "nodes come and go no more", seconds=2 * PATIENCE)
    return watch


def _is_disrupted(node: Json) -> bool:
    taints = node["spec"].get("taints", ())
    return "deletionTimestamp" in node["metadata"] or any(t["key"] == _DISRUPTED for t in taints)


def _has_pods(cluster: RealCluster, name: str) -> bool:
    """Whether the first pods of a Deployment exist."""
    path = f"/api/v1/namespaces/default/pods?labelSelector=app%3D{name}&limit=1"
    return bool(cluster.plane.send("GET", path)["items"])


def _ready(cluster: RealCluster) -> int:
    """How many pods of the two Deployments are ready, without listing them."""
    answer = cluster.plane.send("GET", "/apis/apps/v1/namespaces/default/deployments")
    return sum(each["status"].get("readyReplicas", 0) for each in answer["items"])


def _reservation(cluster: RealCluster) -> float:
    nodes = cluster.items("nodes")
    there = sum(millis(node["status"]["allocatable"]["cpu"]) for node in nodes)
    asked = sum(
        millis(container["resources"]["requests"]["cpu"])
        for pod in cluster.items("pods")
        if pod["spec"].get("nodeName")
        for container in pod["spec"]["containers"]
    )
    return asked / there if there else 0.0


def time_of(line: Mapping[str, Any]) -> float:
    """When a line was logged, in seconds since the epoch."""
    return datetime.fromisoformat(line["time"]).timestamp()


def _seconds(text: str) -> float:
    """Read a duration of the log, such as ``53.009ms``, ``1.2s`` or ``12µs``."""
    for unit, factor in (("ms", 1e-3), ("µs", 1e-6), ("s", 1.0)):
        if text.endswith(unit):
            minutes, _, rest = text.removesuffix(unit).rpartition("m")
            return 60 * float(minutes or 0) + float(rest) * factor
    raise ValueError(f"{text!r} is not a duration")


def node_pool(
    requirements: Sequence[Json], consolidate_after: float = CONSOLIDATE_AFTER
) -> tuple[Json, Json]:
    """A pool of simulated machines with these requirements, and its node class."""
    group = "karpenter.kwok.sh"
    reference = {"group": group, "kind": "KWOKNodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": reference, "requirements": list(requirements)}}
    disruption = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": f"{consolidate_after:.0f}s",
        "budgets": [{"nodes": f"{BUDGET:.0%}"}],
    }
    return (
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "default"},
            "spec": {"template": template, "disruption": disruption},
        },
        {
            "apiVersion": f"{group}/v1alpha1",
            "kind": "KWOKNodeClass",
            "metadata": {"name": "default"},
        },
    )


def deployment(name: str, replicas: int, cpu: str, memory: str) -> Json:
    """A Deployment whose pods ask for so much each."""
    container = {
        "name": "main",
        "image": "example.com/app:v1",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    pod = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    }


def list_of(*items: Json) -> Json:
    """Several objects as one."""
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


if __name__ == "__main__":
    raise SystemExit(main())

"""A recording as demand: what is done again, when, and what is left out."""

from datetime import UTC, datetime
from typing import Any

import pytest

from helpers.manifests import container
from helpers.recorded import KEY
from karpenter.simulate.demand.operations import Operation
from karpenter.simulate.demand.recording import Replayed
from karpenter.simulate.demand.tables import DataError
from karpenter.simulate.record.names import Names
from karpenter.simulate.record.recorder import Recorder
from karpenter.simulate.record.segments import Compressor, moment

Json = dict[str, Any]
T = datetime(2030, 1, 7, tzinfo=UTC).timestamp()


class Tape:
    """Writes a recording by hand."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._compressor = Compressor(self._pieces.append)
        self.now = T
        self.recorder = Recorder(
            Names(KEY, is_hashing=False), lambda: self.now, self._compressor.add, lambda _: None
        )

    def begin(self, *objects: Json) -> "Tape":
        for obj in objects:
            self.recorder.put(obj["kind"], obj)
        self.recorder.begin(1, None)
        return self

    def put(self, at: float, obj: Json) -> "Tape":
        self.now = T + at
        self.recorder.put(obj["kind"], obj)
        return self

    def drop(self, at: float, obj: Json) -> "Tape":
        self.now = T + at
        metadata = obj["metadata"]
        self.recorder.drop(obj["kind"], metadata.get("namespace", ""), metadata["name"])
        return self

    def replayed(self, since: float = 0.0, *, until: float = 3600.0) -> Replayed:
        self.now = T + until
        self.recorder.end()
        self._compressor.finish()
        segment = ("events-0001.jsonl.gz", b"".join(self._pieces))
        return Replayed([segment], datetime.fromtimestamp(T + since, UTC))


def workload(name: str, replicas: int, kind: str = "Deployment", **pod: Any) -> Json:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [container("1", "1Gi")], **pod},
    }
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": template,
    }
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta(name), "spec": spec}


def meta(name: str, owner: Json | None = None) -> Json:
    found: Json = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    return {**found, "ownerReferences": [owner]} if owner else found


def owner(kind: str, name: str) -> Json:
    return {
        "apiVersion": "x/v1",
        "kind": kind,
        "name": name,
        "uid": f"uid-{name}",
        "controller": True,
    }


def job(name: str, **spec: Any) -> Json:
    held = {"controller-uid": "7", "batch.kubernetes.io/job-name": name, "app": "nightly"}
    template = {
        "metadata": {"labels": held},
        "spec": {"containers": [container("1", "1Gi")], "restartPolicy": "OnFailure"},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta(name, owner("CronJob", "nightly")),
        "spec": {"template": template, **spec},
    }


def pod(name: str, of: Json | None = None, **status: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(name, of),
        "spec": {"containers": [container("1", "1Gi")], "nodeName": "a"},
        "status": status,
    }


def ran(
    name: str, begun: float, ended: float | None, of: Json | None = None, **status: Any
) -> Json:
    part: Json = {"startedAt": moment(T + begun)}
    if ended is not None:
        part = {**part, "finishedAt": moment(T + ended), "exitCode": 0}
    state = {"running" if ended is None else "terminated": part}
    phase = "Running" if ended is None else "Succeeded"
    return pod(name, of, **{"phase": phase, "containerStatuses": [{"state": state}], **status})


def said(operations: list[Operation]) -> list[tuple[float, str, str, int]]:
    return [(each.at, each.verb, f"{each.kind}/{each.name}", each.replicas) for each in operations]


def test_workloads_are_there_scaled_changed_and_deleted() -> None:
    web, mail = workload("web", 2), workload("mail", 1, "StatefulSet")
    rolled = workload("web", 5, nodeSelector={"a": "b"})
    tape = Tape().begin(web)
    tape.put(10, workload("web", 5)).put(20, mail).put(30, rolled).drop(40, rolled)

    found = list(tape.replayed().operations())

    assert said(found) == [
        (0, "apply", "Deployment/web", 0),
        (10, "scale", "Deployment/web", 5),
        (20, "apply", "StatefulSet/mail", 0),
        (30, "apply", "Deployment/web", 0),
        (40, "delete", "Deployment/web", 0),
    ]
    assert found[0].body is not None
    spec = found[0].body["spec"]["template"]["spec"]
    assert spec["containers"][0]["name"] == "c0"
    assert found[0].body["metadata"] == {"name": "web", "namespace": "shop"}


def test_a_later_start_finds_what_there_was_by_then() -> None:
    tape = Tape().begin(workload("web", 2))
    tape.put(10, workload("web", 5)).put(70, workload("web", 9))

    found = list(tape.replayed(60).operations())

    assert said(found) == [(0, "apply", "Deployment/web", 0), (10, "scale", "Deployment/web", 9)]
    assert found[0].body is not None
    assert found[0].body["spec"]["replicas"] == 5


def test_pods_of_workloads_and_cron_jobs_and_autoscalers_do_nothing_by_themselves() -> None:
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta("n"), "spec": {}}
    hpa = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    tape = Tape().begin(cron, {**hpa, "metadata": meta("web"), "spec": {}})
    tape.put(1, pod("web-1-x", owner("ReplicaSet", "web-1"))).put(
        2, pod("etcd", owner("Node", "a"))
    )

    assert [] == list(tape.replayed().operations())


def test_a_job_runs_as_long_as_its_pod_did() -> None:
    of = owner("Job", "nightly-1")
    tape = Tape().begin().put(5, job("nightly-1")).put(6, pod("x", of, phase="Pending"))
    tape.put(9, ran("x", 9, None, of)).put(99, ran("x", 9, 99, of))

    (made,) = tape.replayed().operations()

    assert (5, "create") == (made.at, made.verb)
    assert made.body is not None
    template = made.body["spec"]["template"]
    assert template["metadata"]["annotations"]["sandbox.karpenter.sh/run-duration"] == "90.000s"
    assert template["spec"]["restartPolicy"] == "Never"
    assert template["metadata"]["labels"] == {"app": "nightly"}
    assert "ownerReferences" not in made.body["metadata"]


def test_pods_of_one_job_run_as_long_as_each_did_and_evicted_ones_do_not_count() -> None:
    of = owner("Job", "big")
    evicted = {"conditions": [{"type": "DisruptionTarget", "status": "True"}], "phase": "Failed"}
    tape = Tape().begin().put(5, job("big", parallelism=2, completions=2))
    tape.put(9, ran("z", 6, 8, of, **evicted))
    tape.put(20, ran("y", 10, 20, of)).put(30, ran("x", 9, 30, of))

    (made,) = tape.replayed().operations()

    assert made.body is not None
    assert (2, 2) == tuple(made.body["spec"][key] for key in ("parallelism", "completions"))
    notes = made.body["spec"]["template"]["metadata"]["annotations"]
    assert notes["simulate.karpenter.sh/durations"] == "21.000,10.000"
    assert notes["simulate.karpenter.sh/series"] == "shop/uid-big"


def test_a_job_that_did_not_end_runs_on_and_one_that_had_ended_is_gone() -> None:
    of = owner("Job", "long")
    ended = {**job("old"), "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    tape = Tape().begin(ended, job("long")).put(1, ran("x", 1, None, of)).drop(50, ended)

    (made,) = tape.replayed().operations()

    assert made.name == "long"
    assert made.body is not None
    notes = made.body["spec"]["template"]["metadata"]["annotations"]
    assert float(notes["sandbox.karpenter.sh/run-duration"].removesuffix("s")) > 1e8


def test_what_had_begun_before_the_start_runs_for_the_rest() -> None:
    tape = Tape().begin(ran("once", -100, None)).put(40, ran("once", -100, 40))

    (made,) = tape.replayed(10).operations()

    assert made.body is not None
    notes = made.body["spec"]["template"]["metadata"]["annotations"]
    assert notes["sandbox.karpenter.sh/run-duration"] == "30.000s"


def test_pods_of_no_owner_come_again_after_an_eviction_until_they_are_deleted() -> None:
    bare, flow = pod("bare"), pod("step-1", owner("Workflow", "flow"))
    tape = Tape().begin().put(5, bare).put(6, flow).put(9, ran("step-1", 7, 9, flow_owner()))
    tape.drop(50, bare)

    found = list(tape.replayed().operations())

    assert said(found) == [
        (5, "create", "ReplicaSet/bare", 0),
        (6, "create", "Job/step-1", 0),
        (50, "delete", "ReplicaSet/bare", 0),
    ]
    assert found[0].body is not None
    made = found[0].body["spec"]
    assert made["selector"]["matchLabels"].items() <= made["template"]["metadata"]["labels"].items()


def flow_owner() -> Json:
    return owner("Workflow", "flow")


def test_what_is_needed_first_comes_first_and_what_every_cluster_has_does_not_come() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace"}
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7}
    tape = Tape().begin(
        workload("a", 1),
        {**priority, "metadata": {"name": "high"}},
        {**priority, "metadata": {"name": "system-node-critical"}},
        {**namespace, "metadata": {"name": "shop"}},
        {**namespace, "metadata": {"name": "kube-system"}},
    )

    found = [f"{each.kind}/{each.name}" for each in tape.replayed().operations()]

    assert found == ["Namespace/shop", "PriorityClass/high", "Deployment/a"]


def test_what_is_left_out_is_said() -> None:
    labels = {"karpenter.sh/nodepool": "default"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}}
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}}
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "v"}}
    tape = Tape().begin(
        node,
        {**pool, "spec": {"weight": 1}},
        workload("db", 1, volumes=[claim]),
        workload("odd", 1, schedulerName="volcano"),
    )
    tape.put(5, {**pool, "spec": {"weight": 2}})
    made = tape.replayed()

    assert made.warnings() == [
        "the replay begins without 1 node of pools that had no claim, was not ready yet, or was going",
        "volumes are not replayed; in the recording 1 workload asked for some",
        "pods of a scheduler other than the cluster's are not replayed: 1 workload",
        "NodePool default changed during the recording; the scenario has it as it was first seen",
    ]
    assert ["db"] == [each.name for each in made.operations()]


def claim(name: str, node: str, *, up: bool = True, **metadata: Any) -> Json:
    held = {"karpenter.sh/nodepool": "default"}
    conditions = [{"type": "Initialized", "status": "True" if up else "False"}]
    born = {"creationTimestamp": moment(T - 60), "labels": held}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, **born, **metadata},
        "spec": {"nodeClassRef": {"group": "g", "kind": "EC2NodeClass", "name": "c"}},
        "status": {"nodeName": node, "conditions": conditions},
    }


def node_of(name: str, *taints: str) -> Json:
    held = {"karpenter.sh/nodepool": "default", "node.kubernetes.io/instance-type": "m.large"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": held},
        "spec": {"taints": [{"key": each, "effect": "NoSchedule"} for each in taints]},
        "status": {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "1900m"}},
    }


def test_machines_that_are_up_and_stay_are_there_at_the_start() -> None:
    tape = Tape().begin(
        claim("a", "node-a"),
        claim("b", "node-b", up=False),
        claim("c", "node-c", deletionTimestamp=moment(T)),
        node_of("node-a", "karpenter.sh/disrupted", "dedicated"),
        node_of("node-b"),
        node_of("node-c"),
    )
    tape.put(40, claim("b", "node-b")).drop(50, claim("a", "node-a"))
    made = tape.replayed(0)

    (machine,) = made.start().machines
    assert (machine.name, machine.pool, machine.age) == ("node-a", "default", 60)
    assert machine.offering == ("m.large", "", "")
    assert machine.claim["spec"]["nodeClassRef"]["kind"] == "KWOKNodeClass"
    assert [each["key"] for each in machine.node["spec"]["taints"]] == ["dedicated"]
    (warning,) = made.warnings()
    assert warning.startswith("the replay begins without 2 nodes of pools")


def test_a_later_start_has_the_machines_of_that_time() -> None:
    tape = Tape().begin(claim("a", "node-a"), node_of("node-a"))
    tape.put(30, claim("b", "node-b")).put(31, node_of("node-b")).drop(50, claim("a", "node-a"))
    made = tape.replayed(60)

    assert [each.name for each in made.start().machines] == ["node-b"]


def test_pods_are_known_by_the_workloads_that_make_them_again() -> None:
    made_by: Json = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": meta("web-5d", owner("Deployment", "web")),
        "spec": {"replicas": 7},
    }
    tape = Tape().begin(
        workload("web", 2),
        workload("api", 1),
        made_by,
        pod("web-5d-x", owner("ReplicaSet", "web-5d")),
        pod("web-5d-y", owner("ReplicaSet", "web-5d")),
        # As of a recorder that left ReplicaSets of Deployments out
        pod("api-7c-x", owner("ReplicaSet", "api-7c")),
        pod("db-0", owner("StatefulSet", "db")),
        pod("n-x", owner("Job", "n")),
        pod("agent-x", owner("DaemonSet", "agent")),
        pod("over", phase="Succeeded"),
        pod("alone"),
    )
    made = tape.replayed(0)

    assert made.start().places == {
        ("Deployment", "shop", "web"): ("a", "a"),
        ("Deployment", "shop", "api"): ("a",),
        ("Pod", "shop", "db-0"): ("a",),
        ("Job", "shop", "n"): ("a",),
        ("ReplicaSet", "shop", "alone"): ("a",),
        ("Job", "shop", "alone"): ("a",),
    }
    applied = [each.name for each in made.operations() if each.kind == "ReplicaSet"]
    assert applied == ["alone"]


def test_a_start_of_whole_seconds_has_what_there_was_a_moment_later() -> None:
    tape = Tape()
    tape.now = T + 0.5
    tape.begin(workload("web", 2), claim("a", "node-a"), node_of("node-a"))
    made = tape.put(3.5, workload("web", 5)).replayed(0)

    assert said(list(made.operations())) == [
        (0, "apply", "Deployment/web", 0),
        (3.5, "scale", "Deployment/web", 5),
    ]
    assert len(made.start().machines) == 1


def test_a_file_that_is_no_recording_is_said_by_file_and_line() -> None:
    spoilt = Replayed([("events-0001.jsonl.gz", b"nothing")], datetime.fromtimestamp(T, UTC))

    with pytest.raises(DataError, match=r"^events-0001.jsonl.gz:1: this is no whole recording$"):
        list(spoilt.operations())

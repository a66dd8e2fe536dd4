"""Demand from files: rows of CSV, metrics, and traces of SimKube."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.simulated import demand_of, operations_of, scenario, simulated
from karpenter.simulate.demand.csv_rows import Rows, shared_gpus
from karpenter.simulate.demand.sktrace import DURATIONS, read
from karpenter.simulate.demand.summary import summary_of
from karpenter.simulate.demand.tables import DataError, buckets, column_of
from karpenter.simulate.scenario.models import MetricFile, TimeColumn, Trace, Workload

TRACES = Path(__file__).resolve().parents[4] / "shared" / "traces"
needs_traces = pytest.mark.skipif(
    not TRACES.exists(), reason=f"the traces are not there: {TRACES} is an optional folder"
)
OPENB: dict[str, Any] = {
    "file": "openb.csv",
    "time": {"column": "creation_time", "unit": "s"},
    "duration": {"from": "scheduled_time", "to": "deletion_time"},
    "requests": {
        "cpu": {"column": "cpu_milli", "unit": "m"},
        "memory": {"column": "memory_mib", "unit": "Mi"},
        "nvidia.com/gpu": {"column": "num_gpu"},
    },
    "share": "gpu_milli",
    "drop": [{"column": "pod_phase", "is": "Pending"}],
}


def rows_workload(**fields: Any) -> Workload:
    return msgspec.convert({"name": "trace", "csv": {**OPENB, **fields}}, Workload)


def entries(data: bytes, **fields: Any) -> list[Any]:
    workload = rows_workload(**fields)
    assert workload.csv is not None
    return Rows(workload, workload.csv, data).entries()


SMALL = b"""\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,pod_phase,creation_time,deletion_time,scheduled_time
a,12000,16384,1,1000,Running,10,100,20
b,500,1024,0,0,Pending,12,100,20
c,6000,12288,1,460,Succeeded,40,100,50
"""


def test_a_row_is_a_pod_with_what_its_columns_say() -> None:
    wanted = scenario(workloads=[{"name": "trace", "csv": OPENB}])
    first, second = operations_of(wanted, "create", {"openb.csv": SMALL})
    spec = (first.body or {})["spec"]

    assert (0.0, 30.0) == (first.at, second.at)
    assert {"cpu": "12", "memory": "16Gi", "nvidia.com/gpu": "1"} == spec["containers"][0][
        "resources"
    ]["requests"]
    annotations = (first.body or {})["metadata"]["annotations"]
    assert "80.000s" == annotations["sandbox.karpenter.sh/run-duration"]
    (warning,) = summary_of(demand_of(wanted, {"openb.csv": SMALL})).warnings
    assert warning.startswith("openb.csv: 1 rows share a GPU, which is not modelled")


def test_rows_may_be_faster_and_come_again() -> None:
    faster = {**OPENB, "speed": 10.0, "repeat": 2, "as": "Job"}
    wanted = scenario(workloads=[{"name": "trace", "csv": faster}])
    found = operations_of(wanted, "create", {"openb.csv": SMALL})

    assert [0.0, 3.0, 3.0, 6.0] == [each.at for each in found]
    assert {"Job"} == {each.kind for each in found}
    assert 4 == len({each.name for each in found})


def test_bare_pods_run_and_end() -> None:
    wanted = scenario(until="10m", workloads=[{"name": "trace", "csv": OPENB}])
    without_gpus = SMALL.replace(b",1,", b",0,").replace(b"12000", b"1200")
    watched, _ = simulated(wanted, files={"openb.csv": without_gpus})

    assert 2 == len(watched.pods)
    assert all(life.finished is not None for life in watched.pods.values())


@needs_traces
@pytest.mark.case("SIM-17")
def test_openb_is_a_sample_of_shapes() -> None:
    data = (TRACES / "openb" / "openb_pod_list_default.csv").read_bytes()
    some = entries(data, take=100)

    assert {"cpu": "12", "memory": "16Gi", "nvidia.com/gpu": "1"} == some[0].requests
    assert 100 == len(some)
    # Pods that were never scheduled have no duration, and ask for GPUs like the others
    everything = entries(data, drop=[], duration={"column": "creation_time"})
    assert (8152, 3078) == (len(everything), shared_gpus(everything))


@needs_traces
@pytest.mark.case("SIM-18")
def test_arrivals_become_a_metric() -> None:
    data = (TRACES / "azure-llm" / "AzureLLMInferenceTrace_code.csv").read_bytes()
    columns = ["ContextTokens", "GeneratedTokens"]
    metric = MetricFile(file="azure.csv", time=TimeColumn(column="TIMESTAMP"), sum=columns)
    found = buckets(data, metric, 15.0)

    assert 230 == len(found)
    assert sum(found) == sum(sum(column_of("azure.csv", data, each)) for each in columns)


def trace(name: str, **fields: Any) -> tuple[Trace, bytes]:
    data = (TRACES / "simkube" / f"{name}.sktrace").read_bytes()
    return Trace(file=f"{name}.sktrace", **fields), data


@needs_traces
@pytest.mark.case("SIM-19")
def test_a_trace_of_simkube_is_applied_at_its_times() -> None:
    found = list(read(*trace("dsb-scaling")).operations())
    replicas = {each.name: (each.body or {})["spec"]["replicas"] for each in found}

    assert 27 == len({each.name for each in found if each.at == 0})
    assert 1134 == found[-1].at
    assert 42 == sum(replicas.values())
    assert {"apply"} == {each.verb for each in found}


@needs_traces
@pytest.mark.case("SIM-20")
def test_a_cron_job_of_a_trace_runs_as_long_as_it_did() -> None:
    found = list(read(*trace("cronjob")).operations())
    wanted = scenario(until="6m", workloads=[{"name": "t", "sktrace": {"file": "c.sktrace"}}])
    watched, _ = simulated(wanted, files={"c.sktrace": trace("cronjob")[1]})

    assert [("apply", "CronJob", 0.0), ("delete", "CronJob", 205.0)] == [
        (each.verb, each.kind, each.at) for each in found
    ]
    template = (found[0].body or {})["spec"]["jobTemplate"]["spec"]["template"]
    assert "30,30,30" == template["metadata"]["annotations"][DURATIONS]
    ran = [
        life.finished - life.ready
        for life in watched.pods.values()
        if life.finished is not None and life.ready is not None
    ]
    assert ran
    assert {30} == {round(each) for each in ran}


@pytest.mark.case("SIM-21")
def test_half_a_trace_and_one_of_another_version_are_refused() -> None:
    event = {"ts": 1, "applied_objs": [], "deleted_objs": []}
    whole = msgspec.msgpack.encode({"version": 2, "events": [event], "pod_lifecycles": {}})
    old = msgspec.msgpack.encode({"version": 1, "events": []})
    wanted = Trace(file="a.sktrace")

    assert [] == list(read(wanted, whole).operations())
    with pytest.raises(DataError, match=r"^a\.sktrace:1: this is no whole trace of SimKube"):
        read(wanted, whole[: len(whole) // 2])
    with pytest.raises(
        DataError, match=r"a\.sktrace:1: the trace has version 1, and only version 2"
    ):
        read(wanted, old)


def test_a_trace_is_played_without_what_only_its_cluster_had() -> None:
    spec = {
        "serviceAccountName": "app",
        "volumes": [{"name": "s", "secret": {}}, {"name": "e", "emptyDir": {}}],
        "nodeSelector": {"disk": "ssd"},
        "containers": [
            {
                "name": "c",
                "envFrom": [{"secretRef": {"name": "s"}}],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {}}],
                "volumeMounts": [{"name": "s"}, {"name": "e"}],
            }
        ],
    }
    obj = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "a", "uid": "x", "resourceVersion": "1"},
        "spec": {"replicas": 1, "template": {"metadata": {}, "spec": spec}},
        "status": {"replicas": 1},
    }
    events = [{"ts": 5, "applied_objs": [obj], "deleted_objs": []}]
    data = msgspec.msgpack.encode({"version": 2, "events": events})
    (kept,) = read(Trace(file="a"), data).operations()
    (plain,) = read(Trace(file="a", node_labels="drop"), data).operations()
    cleaned = (kept.body or {})["spec"]["template"]["spec"]

    assert {"name": "web", "namespace": "a"} == (kept.body or {})["metadata"]
    assert "status" not in (kept.body or {})
    assert {"volumes", "nodeSelector", "containers"} == cleaned.keys()
    assert [{"name": "A", "value": "1"}] == cleaned["containers"][0]["env"]
    assert [{"name": "e"}] == cleaned["containers"][0]["volumeMounts"]
    assert "nodeSelector" not in (plain.body or {})["spec"]["template"]["spec"]
    assert {("disk", "ssd")} == read(Trace(file="a"), data).node_selectors()

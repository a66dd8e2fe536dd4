"""``karpenter plan`` prints a whole plan, or one sentence for each thing that is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.cluster_texts import (
    class_ref,
    deployment,
    everyone,
    instance_type,
    machine,
    node,
    planned,
    pod,
    pool,
    put,
    reasons,
    running,
    text_of,
)
from helpers.commands import PROVISIONER, Ran, run
from karpenter.console.screen import TIMES
from karpenter.report.provisioning import plan_schema


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def shown(*args: str, stdin: str | None = None) -> str:
    ran = run("plan", *args, "--only", "provisioning", stdin=stdin)
    assert (0, []) == (ran.code, ran.errors)
    return ran.out


def notes(ran: Ran) -> list[str]:
    return [line for line in ran.err.splitlines() if line.startswith("note: ")]


def test_the_smallest_pool_provisions() -> None:
    plan = planned(put("c.json", pool(), pod()))

    assert [["default/web"]] == [claim["pods"] for claim in plan["nodeClaims"]]


@pytest.mark.row("S0-42")
def test_a_pool_without_requirements_considers_the_whole_catalogue() -> None:
    plan = planned(put("c.json", pool(), pod(cpu="500m")))

    (claim,) = plan["nodeClaims"]
    assert 144 == len(claim["instanceTypes"])


def test_without_a_pool_nothing_is_launched_and_the_output_says_so() -> None:
    file = put("c.json", pod())

    plan, view = planned(file), shown(file)

    assert [] == plan["nodeClaims"]
    assert {"default/web": ["NoDynamicNodePools"]} == reasons(plan)
    assert view.startswith("No node can be created: there is no NodePool\n")
    assert "there is no NodePool that could make a node for it" in view


def test_the_yaml_says_the_same_as_the_json() -> None:
    file = put("c.json", pool(), pod(), pod("big", "999"))

    in_yaml = run("plan", file, "-o", "yaml")
    in_json = run("plan", file, "-o", "json")

    assert yaml.safe_load(in_yaml.out) == json.loads(in_json.out)


def test_the_order_of_files_does_not_matter() -> None:
    files = [put("a.json", pool()), put("b.json", pod(), pod("b", "3")), put("c.json", node())]

    assert run("plan", *files, "-o", "json").out == run("plan", *reversed(files), "-o", "json").out


def test_files_folders_and_standard_input_are_read() -> None:
    Path("in/deep").mkdir(parents=True)
    put("in/pool.json", pool())
    put("in/deep/pod.json", pod("deep"))

    plan = planned("-R", "-f", "in", "-", stdin=text_of(pod("piped")))

    assert ["default/deep", "default/piped"] == everyone(plan)


def test_a_node_that_takes_no_pods_gets_none() -> None:
    claim, closed = machine()
    closed["spec"]["unschedulable"] = True

    plan = planned(put("c.json", pool(), claim, closed, pod()))

    assert ({}, ["default/web"]) == (plan["existing"], plan["nodeClaims"][0]["pods"])


def test_the_pods_of_a_node_that_is_being_removed_get_another() -> None:
    claim, going = machine()
    going["spec"]["taints"] = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]

    plan = planned(put("c.json", pool(), claim, going, running("web", "n1")))

    assert [["default/web"]] == [claim["pods"] for claim in plan["nodeClaims"]]


def test_a_deployment_stands_for_the_pods_it_lacks() -> None:
    plan = planned(put("c.json", pool(), deployment(3)))

    assert ["default/web-0", "default/web-1", "default/web-2"] == everyone(plan)


def test_the_schema_is_printed() -> None:
    ran = run("plan", "--schema")

    assert (0, plan_schema()) == (ran.code, ran.out)


def test_the_view_has_totals_nodes_and_reasons() -> None:
    view = shown(
        put(
            "c.json",
            pool(requirements=[{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]),
            pool("gpu", taints=[{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]),
            node(cpu="2"),
            pod("small", "1"),
            pod("large", "7"),
            pod("huge", "300"),
            pod("gated", schedulingGates=[{"name": "hold"}]),
        )
    )

    lines = view.splitlines()
    assert lines[0].startswith("1 node to create: $0.15")
    assert " per hour, $1" in lines[0]
    assert lines[1].startswith("No plan for them can cost less than $0.1")
    assert lines[2] == "3 pods to place: 1 on new nodes, 1 on nodes that exist, 1 fits nowhere"
    assert "c-8x-amd64-linux" in view
    assert "  n1    none     1  small" in lines
    assert "      general  needs 300 cpu; the largest type has 255.9" in lines
    assert "      gpu      does not tolerate dedicated=gpu:NoSchedule" in lines
    assert "  gated  it waits for its scheduling gates hold to be removed" in lines


def test_nodes_that_are_alike_are_folded() -> None:
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                }
            ]
        }
    }
    pods = [pod(f"p{n}", affinity=apart) for n in range(3)]
    for each in pods:
        each["metadata"]["labels"] = {"a": "b"}

    view = shown(put("c.json", pool(), *pods))

    (row,) = [line for line in view.splitlines() if line.lstrip().startswith("general-")]
    assert f" {TIMES}3 " in row
    assert f"{TIMES}N: so many alike" in view


def test_pods_left_over_for_the_same_reasons_are_folded_and_counted() -> None:
    view = shown(put("c.json", pool(), *(pod(f"huge-{n}", "999") for n in range(12))))

    assert "  ✗ 12 pods: huge-0, huge-1, huge-2 +9" in view.splitlines()
    assert 1 == view.count("needs 999 cpu")


@pytest.mark.parametrize("columns", ["40", "80", "100", "120", "200"])
def test_every_line_fits_the_screen(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    file = put("c.json", pool(), node(), pod("small"), pod("large", "30"), pod("huge", "999"))

    view = shown(file)

    assert [] == [line for line in view.splitlines() if len(line) > int(columns)]


APART = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


@pytest.mark.parametrize("columns", ["80", "120"])
def test_long_names_break_no_row(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    name = "a-pool-with-a-name-that-is-about-as-long-as-names-may-be-at-all"
    alike = [pod(f"web-{n}", "3", topologySpreadConstraints=[APART]) for n in range(3)]
    for each in alike:
        each["metadata"]["labels"] = {"app": "web"}
    file = put("c.json", pool(name), pod("a"), pod("huge", "999"), *alike)

    lines = shown(file).splitlines()

    assert all(len(line) <= int(columns) for line in lines)
    nodes = [line for line in lines if "test-zone-" in line]
    assert nodes
    assert all(line.startswith((" a-pool-", "  a-pool-")) for line in nodes)
    legend = lines.index("Pods that fit nowhere") - 2
    assert "  " == lines[legend][:2]
    at = lines.index("  ✗ huge")
    # what goes on below stands below, and not at the margin
    assert all(line.startswith("      ") for line in lines[at + 1 :] if line)


def test_there_is_more_to_see_on_a_wider_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    file = put("c.json", pool(), pod())
    headers = []
    for columns in ("80", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        (header,) = [line for line in shown(file).splitlines() if "$/hour" in line]
        headers.append(header.split())

    assert ["name", "type", "zone", "capacity", "pods", "$/hour", "$/month"] == headers[0]
    assert {"pool", "cpu", "memory"} == set(headers[1]) - set(headers[0])


def test_a_static_pool_whose_limit_is_below_its_replicas_says_so() -> None:
    limited = pool("fixed", replicas=3, limits={"nodes": "2"})

    lines = shown(put("c.json", limited)).splitlines()

    (row,) = [line.split(maxsplit=5) for line in lines if line.strip().startswith("fixed")]
    assert ["fixed", "3", "0", "2", "0", "limits.nodes of the pool allows no more"] == row


def test_nothing_to_do_is_said() -> None:
    assert "No node to create: no pod waits for one\n" == shown(put("c.json", pool()))


@pytest.mark.parametrize(
    ("kinds", "gate"),
    [
        pytest.param(
            [
                {
                    "apiVersion": "karpenter.sh/v1alpha1",
                    "kind": "NodeOverlay",
                    "metadata": {"name": "cheap"},
                    "spec": {
                        "requirements": [
                            {
                                "key": "karpenter.sh/capacity-type",
                                "operator": "In",
                                "values": ["spot"],
                            }
                        ],
                        "price": "0.01",
                    },
                }
            ],
            "NodeOverlay",
            id="an overlay",
        ),
        pytest.param([pool("fixed", replicas=2)], "StaticCapacity", id="a static pool"),
        pytest.param(
            [
                {
                    "apiVersion": "v1",
                    "kind": "PodTemplate",
                    "metadata": {"name": "t"},
                    "template": {"spec": pod()["spec"]},
                },
                {
                    "apiVersion": "autoscaling.x-k8s.io/v1beta1",
                    "kind": "CapacityBuffer",
                    "metadata": {"name": "room"},
                    "spec": {"podTemplateRef": {"name": "t"}, "replicas": 2},
                },
            ],
            "CapacityBuffer",
            id="a buffer",
        ),
    ],
)
def test_what_is_behind_a_feature_gate_counts_unless_the_user_decides(
    kinds: list[dict[str, Any]], gate: str
) -> None:
    file = put("c.json", pool(), pod(), *kinds)
    off = ["--set", "FEATURE_GATES=NodeRepair=true"]

    ran = run("plan", file, "-o", "json")
    without = run("plan", file, "-o", "json", *off)

    assert 1 == len([line for line in notes(ran) if f"{gate}=false leaves them out" in line])
    assert 1 == len([line for line in notes(without) if f"does not say {gate}=true" in line])
    assert ran.out != without.out


def test_settings_reach_the_planner() -> None:
    wanted = pod(
        affinity={
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "preference": {
                            "matchExpressions": [
                                {
                                    "key": "topology.kubernetes.io/zone",
                                    "operator": "In",
                                    "values": ["test-zone-c"],
                                }
                            ]
                        },
                    }
                ]
            }
        }
    )
    file = put("c.json", pool(), wanted)

    respected = planned(file)
    ignored = planned(file, "--set", "preference-policy=Ignore")

    zones = [plan["nodeClaims"][0]["launch"]["zone"] for plan in (respected, ignored)]
    assert ["test-zone-c", "test-zone-a"] == zones


def test_the_scheduler_configuration_is_a_setting() -> None:
    config = json.dumps(
        {
            "podTopologySpread": {
                "defaultConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "topology.kubernetes.io/zone",
                        "whenUnsatisfiable": "DoNotSchedule",
                    }
                ]
            }
        }
    )
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]},
    }
    pods = [pod(f"p{n}", "100m") for n in range(4)]
    for each in pods:
        each["metadata"]["labels"] = {"a": "b"}
    file = put("c.json", pool(), service, *pods)

    plain = planned(file)
    spread = planned(file, "--set", f"SCHEDULER_CONFIG={config}")

    assert [1, 4] == [len(plan["nodeClaims"]) for plan in (plain, spread)]


def test_now_decides_what_has_passed() -> None:
    protected = pod("kept", nodeName="n1")
    protected["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "10m"}
    protected["status"] = {"phase": "Running", "startTime": "2026-08-01T12:00:00Z"}
    leaving = node()
    leaving["metadata"]["deletionTimestamp"] = "2026-08-01T12:00:00Z"
    file = put("c.json", pool(), leaving, protected)

    before = planned(file, "--now", "2026-08-01T12:05:00Z")
    after = planned(file, "--now", "2026-08-01T14:15:00+02:00")

    assert [[], ["default/kept"]] == [everyone(before), everyone(after)]


def test_a_time_budget_that_is_used_up_is_reported_pod_by_pod() -> None:
    pods = [pod(f"p{n}", f"{n + 1}m") for n in range(300)]

    plan = planned(put("c.json", pool(), *pods), "--time-budget", "0s")

    late = [entry["pod"] for entry in plan["deferred"] if entry["reason"] == "NotEvaluated"]
    assert late
    assert sorted(f"default/p{n}" for n in range(300)) == everyone(plan)


def test_an_instance_types_file_serves_any_node_class() -> None:
    foreign = pool(nodeClassRef={"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"})
    Path("types.json").write_text(json.dumps([instance_type("my-type")]), "utf-8")

    plan = planned(put("c.json", foreign, pod()), "--instance-types", "types.json")

    assert ["my-type"] == [claim["launch"]["instanceType"] for claim in plan["nodeClaims"]]


def test_a_reservation_that_nodes_use_up_is_not_planned_with_again() -> None:
    reserved = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]}
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}
    id_key = "karpenter.kwok.sh/reservation-id"
    booked = {
        "Price": 0.00001,
        "ReservationCapacity": 1,
        "Requirements": [reserved, zone, {"key": id_key, "operator": "In", "values": ["cr-1"]}],
    }
    sold = instance_type()
    sold["offerings"].append(booked)
    Path("types.json").write_text(json.dumps([sold]), "utf-8")
    ways = {**reserved, "values": ["reserved", "on-demand"]}
    claim, holder = machine(kind="big-8x", way="reserved", zone="z1")
    holder["metadata"]["labels"][id_key] = "cr-1"
    waiting = put("c.json", pool(requirements=[ways]), pod(cpu="7"))
    running_there = put("d.json", claim, holder, running("full", "n1", "8"))

    free = planned(waiting, "--instance-types", "types.json")
    taken = planned(waiting, running_there, "--instance-types", "types.json")

    capacity = [plan["nodeClaims"][0]["launch"]["capacityType"] for plan in (free, taken)]
    assert ["reserved", "on-demand"] == capacity


def test_pools_of_another_cloud_get_a_hint_and_a_reason() -> None:
    foreign = pool(nodeClassRef={"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"})
    file = put("c.json", foreign, pod())

    ran = run("plan", file, "-o", "json")

    hints = [
        line
        for line in notes(ran)
        if "EC2NodeClass need --provider aws or --instance-types FILE" in line
    ]
    assert 1 == len(hints)
    plan = json.loads(ran.out)["provisioning"]
    assert {"default/web": ["NodeClassUnsupported"]} == reasons(plan)


def test_old_kinds_are_converted_and_other_objects_read_in_their_keys() -> None:
    provisioner = yaml.safe_load(PROVISIONER)
    provisioner["spec"].pop("providerRef")
    wanted = pod(nodeSelector={"karpenter.sh/provisioner-name": "default"})
    Path("types.json").write_text(json.dumps([instance_type()]), "utf-8")

    file = put("c.json", provisioner, wanted)
    ran = run("plan", file, "--instance-types", "types.json", "-o", "json")

    assert 0 == ran.code
    (claim,) = json.loads(ran.out)["provisioning"]["nodeClaims"]
    assert "default" == claim["nodePool"]
    assert [True] == ["EC2NodeClass default is assumed" in line for line in ran.warnings]


def test_a_claim_of_v1beta1_keeps_its_status() -> None:
    claim = {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodeClaim",
        "metadata": {
            "name": "c1",
            "labels": {"karpenter.sh/nodepool": "general"},
            "uid": "u",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"nodeClassRef": {"name": "default"}, "requirements": [], "resources": {}},
        "status": {
            "providerID": "kwok://c1",
            "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"},
        },
    }

    plan = planned(put("c.json", pool(), claim, pod()))

    assert {"c1": ["default/web"]} == plan["existing"]


def test_controllers_may_be_brief() -> None:
    asleep = pool("asleep")
    asleep["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "c1"},
        "spec": {"nodeClassRef": class_ref()},
        "status": {"providerID": "x://1", "conditions": [{"type": "Launched", "status": "True"}]},
    }

    plan = planned(put("c.json", asleep, claim, pod()))

    assert {"default/web": ["NodePoolNotReady"]} == reasons(plan)


def test_kinds_that_no_plan_depends_on_are_passed_over_once_each() -> None:
    others = [
        {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": f"i{n}"}}
        for n in range(3)
    ]
    typo = {"apiVersion": "apps/v1", "kind": "Deploymnt", "metadata": {"name": "web"}}

    ran = run("plan", put("c.json", pool(), *others, typo))

    ingress, deployment = (line.removeprefix("warning: c.json:1: ") for line in ran.warnings)
    assert "Ingress/i0 is ignored: no plan depends on this kind (and 2 more of it)" == ingress
    assert deployment.startswith("Deploymnt/web is ignored: no matches for kind ")
    assert deployment.endswith('; did you mean kind "Deployment"?')
    assert 0 == ran.code

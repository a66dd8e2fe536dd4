"""``karpenter plan`` says what would be removed, what that saves, and why the rest stays."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.cluster_texts import (
    document,
    machine,
    node,
    pdb,
    pod,
    pool,
    put,
    removed,
    running,
)
from helpers.commands import run

NOW = ["--now", "2026-08-01T12:00:00Z"]
ALL = {"budgets": [{"nodes": "100%"}], "consolidateAfter": "30s"}
WEB = {"matchLabels": {"app": "web"}}
PRICE = 4 * 0.025 + 8 * 2**30 / 10**9 * 0.001  # of 4 cpus and 8 GiB, on demand


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    return tmp_path


def ours(**spec: Any) -> dict[str, Any]:
    """A pool that lets all of its nodes go, on demand only, for what is asked for here."""
    on_demand = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    return pool(**{"disruption": ALL, "requirements": [on_demand], **spec})


def plan_of(*objects: dict[str, Any], args: tuple[str, ...] = ()) -> dict[str, Any]:
    return removed(put("c.json", *objects), *NOW, *args)


def shown(*objects: dict[str, Any], args: tuple[str, ...] = ()) -> list[str]:
    ran = run("plan", put("c.json", *objects), "--only", "disruption", *NOW, *args)
    assert (0, []) == (ran.code, ran.errors)
    return ran.out.splitlines()


def why(plan: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {entry["node"]: (entry["reason"], entry["detail"]) for entry in plan["blocked"]}


def verdicts(plan: dict[str, Any]) -> dict[str, str]:
    """What becomes of each node: the method that takes it or the reason why it stays."""
    going = {name: each["method"] for each in plan["commands"] for name in each["candidates"]}
    return {**going, **{name: reason for name, (reason, _) in why(plan).items()}}


def test_an_empty_node_goes_and_what_it_saves_is_told() -> None:
    objects = [ours(), *machine(created="2026-08-01T11:59:20Z")]

    plan, lines = plan_of(*objects), shown(*objects)

    assert [
        {
            "decision": "delete",
            "reason": "Empty",
            "method": "empty",
            "candidates": ["n1"],
            "replacements": [],
            "savingsHourly": pytest.approx(PRICE),
            "score": None,
        }
    ] == plan["commands"]
    assert {"general": {"Empty": 1, "Drifted": 1, "Underutilized": 1}} == plan["budgets"]
    assert lines[0] == "1 node to remove: saves $0.1086 per hour, $79.27 per month"
    assert "  delete n1: empty 40 s, saves $0.1086/h ($79.27/month)" in lines


def test_an_empty_node_whose_price_nobody_knows_saves_nobody_knows_what() -> None:
    unknown = [ours(), *machine("n1", zone="elsewhere")]
    beside = [*unknown, *machine("n2")]

    (alone,) = plan_of(*unknown)["commands"]
    (both,) = plan_of(*beside)["commands"]

    assert (None, None) == (alone["savingsHourly"], both["savingsHourly"])
    assert shown(*unknown)[0] == "1 node to remove: the saving is unknown"
    assert shown(*beside)[0] == "2 nodes to remove: the saving is unknown"


def test_the_total_leaves_out_what_nobody_knows_and_says_so() -> None:
    objects = [
        ours(),
        *machine("n1", zone="elsewhere", spec={"expireAfter": "1h"}),
        *machine("n2", created="2026-08-01T11:59:20Z"),
    ]

    found = {each["candidates"][0]: each["savingsHourly"] for each in plan_of(*objects)["commands"]}

    assert {"n1": None, "n2": pytest.approx(PRICE)} == found
    assert (
        "2 nodes to remove: saves $0.1086 per hour, $79.27 per month,"
        " the saving of 1 node is unknown"
    ) == shown(*objects)[0]


def test_both_parts_come_in_one_document_and_each_alone() -> None:
    file = put("c.json", ours(), *machine(), pod())

    both, first, second = (
        document(file, *NOW, *args)
        for args in ([], ["--only", "provisioning"], ["--only", "disruption"])
    )

    assert ["provisioning", "disruption"] == list(both)
    assert {"provisioning": both["provisioning"]} == first
    assert {"disruption": both["disruption"]} == second


def test_the_yaml_says_the_same_as_the_json() -> None:
    file = put("c.json", ours(), *machine(), *machine("n2"), running("web", "n2"))

    in_yaml, in_json = (run("plan", file, *NOW, "-o", form).out for form in ("yaml", "json"))

    assert yaml.safe_load(in_yaml) == json.loads(in_json)


def test_only_nodes_that_take_its_own_pods_are_named_as_their_new_place() -> None:
    held = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    objects = [
        ours(),
        *machine("n1"),
        *machine("n2"),
        *machine("n3"),
        running("small", "n1"),
        running("web", "n2", "2", metadata=held),
        running("fill", "n3", "2", metadata=held),
        *machine("n0", claim={"deletionTimestamp": "2026-08-01T11:00:00Z", "finalizers": ["a/b"]}),
        running("moves", "n0", "1500m", nodeSelector={"kubernetes.io/hostname": "n3"}),
    ]

    lines = shown(*objects)

    assert "  delete n1: 1 pod fits on n2, saves $0.1086/h ($79.27/month)" in lines


def test_a_node_whose_pods_fit_elsewhere_goes() -> None:
    objects = [
        ours(),
        *machine("n1"),
        *machine("n2"),
        running("small", "n1"),
        running("web", "n2", "2"),
    ]

    plan, lines = plan_of(*objects), shown(*objects)

    assert [("delete", "Underutilized")] == [(c["decision"], c["reason"]) for c in plan["commands"]]
    (line,) = [each for each in lines if each.startswith("  delete ")]
    assert "1 pod fits on n" in line
    assert ", saves $0.1086/h" in line


def test_a_node_makes_way_for_a_cheaper_one() -> None:
    objects = [ours(), *machine(kind="c-16x-amd64-linux"), running("web", "n1")]

    plan, lines = plan_of(*objects), shown(*objects)

    (command,) = plan["commands"]
    assert ("replace", "single") == (command["decision"], command["method"])
    assert [["default/web"]] == [claim["pods"] for claim in command["replacements"]]
    (line,) = [each for each in lines if each.startswith("  replace ")]
    assert "c-2x-amd64-linux on-demand in test-zone-a at $0.0543/h in its place" in line
    assert lines[0].startswith("1 node to remove, 1 new node in its place: saves $0.38")


@pytest.mark.parametrize(
    ("budget", "reason", "detail"),
    [
        pytest.param(
            pdb("web", WEB, maxUnavailable=0),
            "PodDisruptionBudget",
            "PDB default/web allows 0 of 1 for pod default/web",
            id="that never gives way and has no status",
        ),
        pytest.param(
            pdb("web", WEB, minAvailable=1),
            "PodDisruptionBudget",
            "PDB default/web allows 0 of 1 for pod default/web",
            id="that needs every pod there is",
        ),
        pytest.param(
            pdb("web", WEB, minAvailable=0, status={"disruptionsAllowed": 0, "expectedPods": 7}),
            "PodDisruptionBudget",
            "PDB default/web allows 0 of 7 for pod default/web",
            id="whose status counts as it stands",
        ),
        pytest.param(pdb("web", WEB, maxUnavailable=1), "multi", "", id="that leaves one"),
        pytest.param(pdb("other", {"matchLabels": {"a": "b"}}), "multi", "", id="of other pods"),
    ],
)
def test_a_disruption_budget(budget: dict[str, Any], reason: str, detail: str) -> None:
    objects = [ours(), *machine(kind="c-16x-amd64-linux"), running("web", "n1"), budget]

    plan, lines = plan_of(*objects), shown(*objects)

    found = verdicts(plan)["n1"]
    assert reason == {"single": "multi"}.get(found, found)
    if detail:
        assert detail == why(plan)["n1"][1]
        assert f"  keep n1: {detail}" in lines


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        pytest.param(
            machine(node={"annotations": {"karpenter.sh/do-not-disrupt": "true"}}),
            "DoNotDisrupt",
            id="an annotation on the node",
        ),
        pytest.param(
            [
                *machine(),
                running(
                    "web",
                    "n1",
                    metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
                ),
            ],
            "PodDoNotDisrupt",
            id="an annotation on a pod",
        ),
        pytest.param([node()], "NotManaged", id="somebody else's node"),
        pytest.param(machine(node_pool="gone"), "NodePoolNotFound", id="no pool"),
        pytest.param(machine(created="2026-08-01T11:59:50Z"), "Unconsolidatable", id="too young"),
        pytest.param(
            machine(claim={"deletionTimestamp": "2026-08-01T11:00:00Z", "finalizers": ["a/b"]}),
            "Deleting",
            id="on its way out",
        ),
        pytest.param(
            machine(status={"conditions": [{"type": "Consolidatable", "status": "False"}]}),
            "Unconsolidatable",
            id="a condition that says no",
        ),
    ],
)
def test_a_node_that_stays_has_a_reason(objects: list[dict[str, Any]], reason: str) -> None:
    plan = plan_of(ours(), *objects)

    assert ([], {"n1": reason}) == (plan["commands"], verdicts(plan))


def test_nodes_on_their_way_out_are_not_told_as_staying() -> None:
    leaving = {"deletionTimestamp": "2026-08-01T11:00:00Z", "finalizers": ["a/b"]}
    file = put("c.json", ours(), *machine(claim=leaving))

    ran = run("plan", file, "--only", "disruption", "--now", "2026-08-01T12:00:00Z")

    assert (
        "No node to remove\n\nOn their way out already\n  n1\n"
        "  karpenter explain node NAME says what one waits for\n"
    ) == ran.out.partition("\nHow many")[0]


def test_a_condition_that_says_yes_counts_as_it_stands() -> None:
    young = machine(
        created="2026-08-01T11:59:50Z",
        status={"conditions": [{"type": "Consolidatable", "status": "True"}]},
    )

    assert {"n1": "empty"} == verdicts(plan_of(ours(), *young))


def test_budgets_hold_nodes_back_and_windows_close_them() -> None:
    nightly = {"nodes": "0", "schedule": "0 12 * * *", "duration": "1h"}
    budgets = [{"nodes": "1"}, nightly]
    objects = [
        ours(disruption={**ALL, "budgets": budgets}),
        *machine("n1"),
        *machine("n2"),
    ]
    file = put("c.json", *objects)

    within = removed(file, "--now", "2026-08-01T12:00:00Z")
    after = removed(file, "--now", "2026-08-01T15:00:00+02:00")

    assert {"n1": "Budget", "n2": "Budget"} == verdicts(within)
    assert 0 == within["budgets"]["general"]["Empty"]
    assert ["empty", "Budget"] == sorted(verdicts(after).values(), reverse=True)
    assert 1 == after["budgets"]["general"]["Empty"]


def test_an_expired_node_goes_whatever_budgets_say() -> None:
    objects = [
        ours(disruption={**ALL, "budgets": [{"nodes": "0"}]}),
        *machine(spec={"expireAfter": "10h"}),
    ]

    plan, lines = plan_of(*objects), shown(*objects)

    assert [("Expired", "expiration")] == [(c["reason"], c["method"]) for c in plan["commands"]]
    assert lines[0].startswith("1 node to remove")
    (line,) = [each for each in lines if each.startswith("  delete ")]
    assert line.startswith("  delete n1: expired 2 h ago")


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        pytest.param({}, "", id="the template is what it was"),
        pytest.param({"team": "shop"}, "NodePoolDrifted", id="the template has changed"),
    ],
)
def test_drift_from_a_pool_that_has_no_hash_yet(labels: dict[str, str], reason: str) -> None:
    made = document(put("p.json", ours(), pod()), *NOW)["provisioning"]["nodeClaims"][0]
    wanted = ours()
    if labels:
        wanted["spec"]["template"]["metadata"] = {"labels": labels}
    stamped = machine(claim={"annotations": made["annotations"]})
    claim_labels = {**stamped[0]["metadata"].get("labels", {}), **stamped[1]["metadata"]["labels"]}
    stamped[0]["metadata"]["labels"] = {**claim_labels, **labels}
    objects = [wanted, *stamped, running("web", "n1", "3")]

    plan, lines = plan_of(*objects), shown(*objects)

    assert bool(reason) == any(c["reason"] == "Drifted" for c in plan["commands"])
    assert bool(reason) == any(f"replace n1: drifted ({reason})" in line for line in lines)


def test_a_claim_written_down_without_labels_is_what_its_node_is() -> None:
    bare = machine(claim={"labels": {"karpenter.sh/nodepool": "general"}})

    plan = plan_of(ours(), *bare, running("web", "n1", "3"))

    assert {"n1": "Unconsolidatable"} == verdicts(plan)


def test_a_node_that_says_it_is_not_ready_uses_up_a_budget() -> None:
    broken = machine("n1")
    broken[1]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    budget = {**ALL, "budgets": [{"nodes": "1"}]}

    plan = plan_of(ours(disruption=budget), *broken, *machine("n2"))

    assert {"Empty": 0, "Drifted": 0, "Underutilized": 0} == plan["budgets"]["general"]


def test_repair_is_planned_when_it_is_on() -> None:
    broken = machine("n1")
    broken[1]["status"]["conditions"] = [
        {"type": "Ready", "status": "False", "lastTransitionTime": "2026-08-01T10:00:00Z"}
    ]
    on = ("--set", "FEATURE_GATES=NodeRepair=true")
    healthy = [each for n in range(2, 8) for each in machine(f"n{n}")]
    pods = [running(f"web-{n}", f"n{n}", "3") for n in range(1, 8)]
    objects = [ours(), *broken, *healthy, *pods]

    without, plan, lines = plan_of(*objects), plan_of(*objects, args=on), shown(*objects, args=on)

    assert "repair" not in verdicts(without).values()
    assert "repair" == verdicts(plan)["n1"]
    assert "Unhealthy" in plan["budgets"]["general"]
    assert "Unhealthy" not in without["budgets"]["general"]
    assert any("unhealthy (Ready False for 2 h)" in line for line in lines)


def test_when_time_runs_out_it_is_said_which_nodes_were_not_looked_at() -> None:
    objects = [ours(), *machine(kind="c-16x-amd64-linux"), running("web", "n1")]

    plan = plan_of(*objects, args=("--time-budget", "0s"))

    assert {"n1": "NotEvaluated"} == verdicts(plan)


def test_nothing_to_do_is_said() -> None:
    assert ["No node to remove"] == shown(ours())


def test_many_nodes_alike_take_one_line() -> None:
    machines = [each for n in range(70) for each in [node(f"n{n}")]]

    lines = shown(ours(), *machines)

    (line,) = [each for each in lines if "keep" in each]
    assert "  keep n0, n1, n2 +67: it has no NodeClaim, so it is not ours" == line


def test_the_table_and_budgets_of_pools_with_nodes() -> None:
    lines = shown(ours(), ours(name="idle"), *machine(), running("web", "n1", "3"))

    at = lines.index("How many more nodes may be disrupted now")
    assert ["pool", "nodes", "empty", "drifted", "underutilized"] == lines[at + 1].split()
    assert [["general", "1", "1", "1", "1"]] == [line.split() for line in lines[at + 2 :]]


def test_no_pod_is_placed_on_a_node_that_has_expired() -> None:
    objects = [
        ours(disruption={**ALL, "budgets": [{"nodes": "0"}]}),
        *machine("old", "c-8x-amd64-linux", spec={"expireAfter": "10h"}),
        running("web", "old", "3"),
        pod("new", "2"),
    ]

    plan = document(put("c.json", *objects), *NOW)

    assert {} == plan["provisioning"]["existing"]
    made = [name for claim in plan["provisioning"]["nodeClaims"] for name in claim["pods"]]
    assert ["default/new", "default/web"] == sorted(made)
    assert {"old": "expiration"} == verdicts(plan["disruption"])


def test_no_pod_is_placed_on_a_node_that_a_static_pool_has_too_many_of() -> None:
    fixed = pool("fixed", replicas=0)
    objects = [ours(), fixed, *machine("old", node_pool="fixed"), pod("new", "2")]

    plan = document(put("c.json", *objects), *NOW)

    assert {} == plan["provisioning"]["existing"]
    assert [["default/new"]] == [claim["pods"] for claim in plan["provisioning"]["nodeClaims"]]
    assert [["old"]] == [each["delete"] for each in plan["provisioning"]["static"]]
    assert ["old"] == [name for c in plan["disruption"]["commands"] for name in c["candidates"]]


def test_pods_that_only_cluster_autoscaler_would_spare_are_counted() -> None:
    def protected(name: str, **annotations: str) -> dict[str, Any]:
        unsafe = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
        return running(name, "n1", "100m", metadata={"annotations": {**unsafe, **annotations}})

    kept = protected("kept", **{"karpenter.sh/do-not-disrupt": "true"})
    one = (ours(), *machine("n1"), protected("a"), kept)
    said = 'note: 1 pod has cluster-autoscaler.kubernetes.io/safe-to-evict: "false"'

    notes = [
        run("plan", put("c.json", *objects), *NOW, *args).err.splitlines()
        for objects, args in (
            (one, ()),
            ((*one, protected("b"), protected("c")), ()),
            (one, ("--only", "provisioning")),
            ((ours(), *machine("n1"), kept), ()),
        )
    ]

    assert 1 == len(notes[0])
    assert notes[0][0].startswith(f"{said}, which only Cluster Autoscaler honours (default/a);")
    assert "note: 3 pods have " in notes[1][0]
    assert "(default/a and 2 more)" in notes[1][0]
    assert [[], []] == notes[2:]

"""``karpenter explain node`` tells why one node goes or stays, and what could be done with it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.cluster_texts import machine, node, pdb, pod, pool, put, running
from helpers.commands import run

NOW = ["--now", "2026-08-01T12:00:00Z"]
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
LARGE = "c-16x-amd64-linux"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    return tmp_path


def ours(**spec: Any) -> dict[str, Any]:
    disruption = {"budgets": [{"nodes": "100%"}], "consolidateAfter": "30s"}
    return pool(**{"disruption": disruption, "requirements": [ON_DEMAND], **spec})


def told(name: str, *objects: dict[str, Any], args: tuple[str, ...] = ()) -> list[str]:
    ran = run("explain", "node", name, put("c.json", *objects), *NOW, *args)
    assert (0, []) == (ran.code, ran.errors)
    return ran.out.splitlines()


def data(name: str, *objects: dict[str, Any], args: tuple[str, ...] = ()) -> Any:
    return json.loads("\n".join(told(name, *objects, args=("-o", "json", *args))))


def last_filter(name: str, *objects: dict[str, Any], args: tuple[str, ...] = ()) -> tuple[str, str]:
    filters = data(name, *objects, args=args)["filters"]
    assert all(each["passed"] for each in filters[:-1])
    return filters[-1]["filter"], filters[-1]["reason"]


def test_a_node_that_goes() -> None:
    lines = told("n1", ours(), *machine())

    assert [
        "Node n1 would go",
        "├── delete n1: empty 12 h, saves $0.1086/h ($79.27/month)",
        "├── c-4x-amd64-linux on-demand in test-zone-a of pool general, at $0.1086/h ($79.27/month)",
        "├── runs no pods",
        "├── filters, up to the first that holds it",
        "│   ├── ✓ machine: it is initialized, and no pods are expected on it",
        "│   ├── ✓ pool: there is a NodePool general, and 144 instance types on sale",
        "│   ├── ✓ pods: it has no pods that would have to move",
        "│   ├── ✓ cause: it is empty",
        "│   └── ✓ budget: 1 of 1 nodes may be disrupted for Empty",
        "└── budgets leave 1 for Empty, 1 for Drifted, 1 for Underutilized",
    ] == lines


def test_a_node_that_a_disruption_budget_holds_and_what_it_costs() -> None:
    budget = pdb("web", {"matchLabels": {"app": "web"}}, maxUnavailable=0)
    objects = [ours(), *machine(kind=LARGE), running("web", "n1"), budget]

    lines = told("n1", *objects)

    assert lines[:2] == [
        "Node n1 stays",
        "├── PDB default/web allows 0 of 1 for pod default/web",
    ]
    assert "│   └── ✗ pods: PDB default/web allows 0 of 1 for pod default/web" in lines
    assert [
        "├── the best that could be done with it",
        "│   ├── 1 pod would need c-2x-amd64-linux on-demand in test-zone-a at $0.0543/h",
        "│   └── that would save $0.3801/h ($277.45/month)",
        "└── costs $0.3801/h ($277.45/month) more than its pods are worth in a well-bought cluster",
        "    └── web pays $0.0543/h of it, and costs 1 to move",
    ] == lines[-5:]


def test_a_move_that_would_cost_more_is_told_with_its_price() -> None:
    objects = [ours(), *machine(), running("web", "n1", "3")]

    document = data("n1", *objects)

    assert ("Kept", "Unconsolidatable") == (document["outcome"], document["reason"])
    assert ("move", "Unconsolidatable") == last_filter("n1", *objects)
    move = document["move"]
    assert ("replace", document["price"]) == (move["decision"], move["costHourly"])
    assert 0.0 == move["savingsHourly"]
    assert move["refused"].startswith("the cheapest replacement is c-4x-amd64-linux (on-demand")


def test_pods_that_fit_on_another_node() -> None:
    held = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    objects = [
        ours(),
        *machine("n1", node=held),
        *machine("n2", node=held),
        running("small", "n1"),
        running("other", "n2"),
    ]

    document, lines = data("n1", *objects), told("n1", *objects)

    assert {"n2": ["default/small"]} == document["move"]["placements"]
    assert ("delete", "") == (document["move"]["decision"], document["move"]["refused"])
    assert "│   ├── small would fit on n2" in lines


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([node("n1")], ("machine", "NotManaged"), id="somebody else's"),
        pytest.param(machine(node_pool="gone"), ("pool", "NodePoolNotFound"), id="no pool"),
        pytest.param(
            [
                *machine(),
                running(
                    "web", "n1", metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
                ),
            ],
            ("pods", "PodDoNotDisrupt"),
            id="a pod that must not be disrupted",
        ),
        pytest.param(
            machine(created="2026-08-01T11:59:50Z"), ("cause", "Unconsolidatable"), id="too young"
        ),
        pytest.param(
            [*machine(), running("web", "n1", "3")], ("move", "Unconsolidatable"), id="the price"
        ),
    ],
)
def test_how_far_a_node_gets(objects: list[dict[str, Any]], expected: tuple[str, str]) -> None:
    assert expected == last_filter("n1", ours(), *objects)


def test_a_budget_that_is_used_up() -> None:
    closed = {"budgets": [{"nodes": "0"}], "consolidateAfter": "30s"}
    objects = [ours(disruption=closed), *machine()]

    assert ("budget", "Budget") == last_filter("n1", *objects)
    assert any(
        "✗ budget: 0 of 1 nodes may be disrupted for Empty" in each for each in told("n1", *objects)
    )


def test_no_budget_at_all() -> None:
    window = {"nodes": "0", "schedule": "0 0 * * *", "duration": "1h"}
    open_now = {"budgets": [window], "consolidateAfter": "30s"}

    lines = told("n1", ours(disruption=open_now), *machine())

    assert any("no budget limits how many nodes may be disrupted for Empty" in x for x in lines)
    assert lines[-1] == "└── budgets leave any for Empty, any for Drifted, any for Underutilized"


def test_a_node_that_has_expired_goes_past_its_budget() -> None:
    closed = {"budgets": [{"nodes": "0"}], "consolidateAfter": "30s"}
    objects = [ours(disruption=closed), *machine(spec={"expireAfter": "1h"})]

    document = data("n1", *objects)

    assert ("Removed", "Expired", 1) == (
        document["outcome"],
        document["reason"],
        document["turn"],
    )
    assert all(each["passed"] for each in document["filters"])


def test_a_node_that_drifted_with_a_pod_that_is_held_until_a_deadline() -> None:
    drifted = machine(
        spec={"terminationGracePeriod": "1h"},
        status={"conditions": [{"type": "Drifted", "status": "True", "reason": "AMIDrift"}]},
    )
    held = running("web", "n1", metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}})

    document = data("n1", ours(), *drifted, held)

    assert ("Removed", "Drifted") == (document["outcome"], document["reason"])
    details = {each["filter"]: each["detail"] for each in document["filters"]}
    assert details["pods"].endswith("which ends with the claim's termination grace period")
    assert details["cause"] == "it has drifted: AMIDrift"


def test_pods_that_wait_are_no_part_of_the_move() -> None:
    objects = [
        ours(),
        *machine(),
        running("web", "n1", "3", nodeSelector={"kubernetes.io/arch": "amd64"}),
        pod("waits", nodeSelector={"kubernetes.io/arch": "arm64"}),
    ]

    document = data("n1", *objects)

    assert [["default/web"]] == [claim["pods"] for claim in document["move"]["replacements"]]
    assert "pods that wait for a node come first" in document["move"]["refused"]


def test_a_node_that_a_waiting_pod_would_come_to_is_kept_for_it() -> None:
    objects = [ours(), *machine(), pod("waits")]

    document = data("n1", *objects)

    assert ("Kept", "Nominated") == (document["outcome"], document["reason"])
    assert ("machine", "Nominated") == last_filter("n1", *objects)


@pytest.mark.case("V15-D03")
@pytest.mark.parametrize(
    ("args", "said"),
    [
        pytest.param(
            ("--set", "FEATURE_GATES=NodeRepair=true"),
            "Unhealthy, and nothing that holds repairs back applies",
            id="within budgets",
        ),
        pytest.param(
            ("--set", "FEATURE_GATES=NodeRepair=true", "--set", "LEGACY_NODE_REPAIR=true"),
            "Unhealthy, which nothing of all this holds back",
            id="forced as before",
        ),
    ],
)
def test_a_node_that_is_repaired(args: tuple[str, ...], said: str) -> None:
    claim, broken = machine()
    broken["status"]["conditions"] = [
        {"type": "Ready", "status": "False", "lastTransitionTime": "2026-08-01T01:00:00Z"}
    ]

    filters = data("n1", ours(), claim, broken, *machine("n2"), args=args)["filters"]

    assert [("cause", True, said)] == [(f["filter"], f["passed"], f["detail"]) for f in filters]


@pytest.mark.parametrize(
    ("kind", "since", "line"),
    [
        pytest.param(
            "Ready",
            "11:55",
            "├── unhealthy: Ready is False (Kernel); to be replaced at 2026-08-01 12:05:00 UTC (in 5 min)"
            " if that lasts",
            id="V15-D02 not for long enough",
        ),
        pytest.param(
            "KWOKRebootRequired",
            "11:00",
            "├── unhealthy: KWOKRebootRequired is True (Kernel); due to be restarted since"
            " 2026-08-01 11:00:30 UTC",
            id="V15-D10 long enough, and held",
        ),
    ],
)
def test_when_an_unhealthy_node_is_repaired(kind: str, since: str, line: str) -> None:
    claim, broken = machine(node={"annotations": {"karpenter.sh/do-not-repair": "true"}})
    broken["status"]["conditions"] = [
        {
            "type": kind,
            "status": "False" if kind == "Ready" else "True",
            "reason": "Kernel",
            "lastTransitionTime": f"2026-08-01T{since}:00Z",
        }
    ]
    gate = ("--set", "FEATURE_GATES=NodeRepair=true")
    never = ours(disruption={"consolidateAfter": "Never"})

    lines = told("n1", never, claim, broken, args=gate)

    assert line in lines


def test_a_place_on_a_node_that_is_not_up_yet_is_none() -> None:
    coming_claim, coming = machine("n2", LARGE)
    del coming["metadata"]["labels"]["karpenter.sh/initialized"]

    move = data("n1", ours(), *machine(), running("web", "n1"), coming_claim, coming)["move"]

    assert ({}, "default/web would have to wait for n2, not up yet") == (
        move["placements"],
        move["refused"],
    )


def test_a_cordoned_node_says_so() -> None:
    claim, cordoned = machine()
    cordoned["spec"]["unschedulable"] = True

    lines = told("n1", ours(), claim, cordoned)

    assert "├── is cordoned, so no more pods come to it; that does not keep it" in lines


def test_no_pool_can_make_a_replacement() -> None:
    unready = ours()
    unready["status"] = {"conditions": [{"type": "Ready", "status": "False", "reason": "Broken"}]}
    objects = [unready, *machine(), running("web", "n1", "3")]

    document = data("n1", *objects)

    assert (None, "no dynamic node pool is ready") == (
        document["move"]["decision"],
        document["move"]["refused"],
    )


def test_a_pod_without_another_place() -> None:
    picky = running("web", "n1", nodeSelector={"kubernetes.io/hostname": "n1"})

    document = data("n1", ours(), *machine(), picky)

    assert "no place for default/web" == document["move"]["refused"]
    assert document["move"]["decision"] is None


def test_a_node_that_takes_the_pods_of_another() -> None:
    objects = [
        ours(),
        *machine("n1"),
        *machine("n2", LARGE),
        running("small", "n1"),
        running("big", "n2", "12"),
    ]

    document, lines = data("n2", *objects), told("n2", *objects)

    assert ("Nominated", ["n1"]) == (document["reason"], document["takesFrom"])
    assert "├── would take pods of n1" in lines


def test_a_static_pool_has_no_better_move() -> None:
    document = data("n1", ours(replicas=1), *machine())

    assert ("StaticNodePool", None) == (document["reason"], document["move"])


def test_a_balanced_pool_weighs_the_move() -> None:
    balanced = {
        "budgets": [{"nodes": "100%"}],
        "consolidateAfter": "30s",
        "consolidationPolicy": "Balanced",
    }
    crowd = [running(f"p{n}", "n1", "100m") for n in range(30)]
    objects = [
        ours(disruption=balanced),
        *machine("n1"),
        *crowd,
        *machine("n2", LARGE),
        running("web", "n2", "12"),
    ]

    document = data("n1", *objects)

    assert "Kept" == document["outcome"]
    assert "is not worth it: score 0." in document["move"]["refused"]


def test_the_yaml_says_the_same_and_a_claim_stands_for_its_node() -> None:
    objects = [ours(), *machine()]

    in_yaml = yaml.safe_load("\n".join(told("n1", *objects, args=("-o", "yaml"))))

    assert in_yaml == data("claim-n1", *objects)
    assert [
        "node",
        "nodeClaim",
        "nodePool",
        "instanceType",
        "zone",
        "capacityType",
        "price",
        "expires",
        "repair",
        "pods",
        "outcome",
        "reason",
        "detail",
        "command",
        "turn",
        "takesFrom",
        "filters",
        "budgets",
        "move",
        "leaving",
        "why",
        "excess",
    ] == list(in_yaml)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param(
            "blue", "there is no node blue; did you mean blue-1, blue-2, blue-10?", id="a beginning"
        ),
        pytest.param("bleu-2", "there is no node bleu-2; did you mean blue-2", id="misspelt"),
        pytest.param("zzz", "there is no node zzz among the 3 there are", id="unknown"),
    ],
)
def test_an_unknown_node_is_one_sentence(name: str, said: str) -> None:
    ran = run("explain", "node", name, put("c.json", *(node(f"blue-{n}") for n in (1, 2, 10))))

    assert (2, "", 1) == (ran.code, ran.out, len(ran.errors))
    assert ran.errors[0].startswith(f"error: {said}")


def test_no_nodes_at_all() -> None:
    ran = run("explain", "node", "n1", put("c.json", pool()))

    assert (2, "") == (ran.code, ran.out)
    assert ["error: there is no node n1: there are no nodes at all"] == ran.errors


def leaving(*pods: dict[str, Any], **claim: Any) -> list[dict[str, Any]]:
    held = {"deletionTimestamp": "2026-08-01T11:50:00Z", "finalizers": ["karpenter.sh/termination"]}
    return [ours(), *machine(claim={**held, **claim}), *pods]


def test_a_node_on_its_way_out_says_what_it_waits_for() -> None:
    mark = "karpenter.sh/do-not-disrupt"
    kept = running("kept", "n1", metadata={"annotations": {mark: "true"}})
    web = running("web", "n1", metadata={"labels": {"app": "web"}})

    lines = told(
        "n1", *leaving(kept, web), pdb("web", {"matchLabels": {"app": "web"}}, minAvailable=1)
    )

    assert [
        "Node n1 is on its way out",
        (
            "├── since 2026-08-01 11:50:00 UTC (10 min), and without a deadline: its claim has no"
            " terminationGracePeriod"
        ),
        "├── c-4x-amd64-linux on-demand in test-zone-a of pool general, at $0.1086/h ($79.27/month)",
        "├── runs 2 pods: kept, web",
        "├── what it waits for",
        "│   ├── pod default/kept has the annotation karpenter.sh/do-not-disrupt",
        "│   └── PDB default/web allows 0 of 1 for pod default/web",
        "└── budgets leave 0 for Empty, 0 for Drifted, 0 for Underutilized",
    ] == lines


def test_a_deadline_and_foreign_finalizers_of_a_node_on_its_way_out_are_told() -> None:
    deadline = "2026-08-01T12:30:00Z"
    objects = leaving(
        annotations={"karpenter.sh/nodeclaim-termination-timestamp": deadline},
        finalizers=["karpenter.sh/termination", "example.com/hold"],
    )

    told_as_data = data("n1", *objects)

    assert {
        "since": "2026-08-01T11:50:00Z",
        "deadline": deadline,
        "waitsFor": [
            "its NodeClaim has finalizers that other controllers remove: example.com/hold"
        ],
    } == told_as_data["leaving"]
    assert told_as_data["move"] is None


def test_a_node_that_stays_is_not_leaving() -> None:
    assert data("n1", ours(), *machine(created="2026-08-01T11:59:50Z"))["leaving"] is None


def test_what_keeps_a_node_from_being_initialized_is_told() -> None:
    missing = {
        "type": "Initialized",
        "status": "Unknown",
        "reason": "StartupTaintsExist",
        "message": "startup taint boot:NoSchedule is still there",
    }
    claim, joined = machine(status={"conditions": [missing]})
    del joined["metadata"]["labels"]["karpenter.sh/initialized"]

    lines = told("n1", ours(), claim, joined)

    said = "✗ machine: it is not initialized: Initialized is Unknown (StartupTaintsExist: startup"
    assert any(said in line for line in lines), lines


def test_a_claim_that_has_not_launched_has_no_node_to_explain() -> None:
    claim, _ = machine()
    failed = {
        "type": "Launched",
        "status": "Unknown",
        "reason": "LaunchFailed",
        "message": "the cloud is closed",
    }
    claim["status"] = {"conditions": [failed]}

    ran = run("explain", "node", "claim-n1", put("c.json", ours(), claim), *NOW)

    assert (2, "") == (ran.code, ran.out)
    (said,) = ran.errors
    assert said == (
        "error: NodeClaim claim-n1 has no node, as it has not launched: Launched is Unknown"
        " (LaunchFailed: the cloud is closed)"
    )


def test_when_a_node_expires_is_told() -> None:
    claim, joined = machine(created="2026-08-01T11:00:00Z", spec={"expireAfter": "720h"})

    lines = told("n1", ours(), claim, joined)

    said = "├── expires 2026-08-31 11:00:00 UTC (in 29 d), whatever holds it until then"
    assert said in lines
    assert "2026-08-31T11:00:00Z" == data("n1", ours(), claim, joined)["expires"]


def test_a_node_that_never_expires_says_nothing_of_it() -> None:
    assert data("n1", ours(), *machine())["expires"] is None

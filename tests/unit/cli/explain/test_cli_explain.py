"""``karpenter explain pod`` tells the story of one pod, placed or not."""

import json
from pathlib import Path

import pytest
import yaml

from helpers.cluster_texts import node, pod, pool, put, text_of
from helpers.commands import run

GPU_TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


@pytest.fixture
def file() -> str:
    return put(
        "c.json",
        pool("general", weight=10),
        pool("gpu", taints=[GPU_TAINT]),
        node("n1", cpu="2"),
        pod("small", "1"),
        pod("large", "7"),
        pod("huge", "300"),
        pod("gated", schedulingGates=[{"name": "hold"}]),
        pod("twin", "50", namespace="a"),
        pod("twin", "50", namespace="b"),
        pod("only", "50", namespace="shop"),
    )


def told(*args: str) -> list[str]:
    ran = run("explain", "pod", *args)
    assert (0, []) == (ran.code, ran.errors)
    return ran.out.splitlines()


def test_a_pod_on_a_new_node(file: str) -> None:
    lines = told("large", file)

    assert lines[0] == "Pod default/large goes to a new node"
    assert lines[1] == "├── asks for 7 cpu"
    assert any(line.startswith("├── node general-") for line in lines)
    assert any("is the cheapest of" in line for line in lines)
    assert any("next best: " in line for line in lines)
    assert any("its pool is the first that takes the pod" in line for line in lines)
    assert "├── pools: 1 of 2 would make a node for it" in lines
    assert any("✓ general (used): alone on c-8x-amd64-linux spot" in line for line in lines)
    assert any(
        "✗ gpu: would fit if it tolerated dedicated=gpu:NoSchedule" in line for line in lines
    )
    assert "└── nodes that exist: 0 of 1 could take it" in lines
    assert lines[-1] == (
        "    └── ✗ 1 node: too little cpu: needs 7, the most that is free is 1 (n1)"
    )


def test_a_pod_on_a_node_that_exists(file: str) -> None:
    lines = told("small", file)

    assert lines[0] == "Pod default/small goes to a node that exists or is on its way"
    assert "├── node n1 of no pool" in lines
    assert lines[-2:] == ["└── nodes that exist: 1 of 1 could take it", "    └── ✓ n1"]


def test_a_pod_that_fits_nowhere(file: str) -> None:
    lines = told("huge", file)

    assert lines[:2] == ["Pod default/huge fits nowhere", "├── none of 2 pools takes it"]
    assert any("✗ room: needs 300 cpu; the largest type has 255.9" in line for line in lines)


def test_a_pod_that_is_left_alone(file: str) -> None:
    assert [
        "Pod default/gated is left alone",
        "├── it waits for its scheduling gates hold to be removed",
        "└── asks for 1 cpu",
    ] == told("gated", file)


@pytest.mark.parametrize(
    ("args", "found"),
    [
        pytest.param(["default/small"], "default/small", id="with its namespace"),
        pytest.param(["small", "-n", "default"], "default/small", id="namespace as an option"),
        pytest.param(["only"], "shop/only", id="the only one of its name"),
        pytest.param(["twin", "--namespace", "b"], "b/twin", id="one of several"),
    ],
)
def test_how_a_pod_may_be_named(args: list[str], found: str, file: str) -> None:
    assert told(*args, file)[0].startswith(f"Pod {found} ")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        pytest.param(
            ["twin"], "several pods are called twin: say which of a/twin, b/twin", id="two"
        ),
        pytest.param(["smal"], "there is no pod smal; did you mean default/small?", id="misspelt"),
        pytest.param(["onl"], "there is no pod onl; did you mean shop/only?", id="elsewhere"),
        pytest.param(["zzz"], "there is no pod zzz among the 7 there are", id="unknown"),
        pytest.param(["a/b", "-n", "c"], "names a namespace already", id="two namespaces"),
    ],
)
def test_a_pod_that_cannot_be_told_is_one_sentence(args: list[str], said: str, file: str) -> None:
    ran = run("explain", "pod", *args, file)

    assert (2, "", 1) == (ran.code, ran.out, len(ran.errors))
    assert said in ran.err


def test_a_workload_for_a_pod_is_guessed() -> None:
    pods = [pod(f"web-{n}") for n in (10, 2, 1)]

    ran = run("explain", "pod", "web", put("c.json", *pods))

    assert "did you mean default/web-1, default/web-2, default/web-10?" in ran.err


def test_no_pods_at_all() -> None:
    ran = run("explain", "pod", "web", put("c.json", pool()))

    assert (2, "") == (ran.code, ran.out)
    assert "the input has no pods, nor anything that makes pods" in ran.err


def test_bad_input_is_refused_as_for_a_plan() -> None:
    ran = run("explain", "pod", "web", "-", stdin=text_of(pod(cpu="-1")))

    assert (2, "") == (ran.code, ran.out)
    assert "must not be negative" in ran.errors[0]


def test_the_same_as_data(file: str) -> None:
    in_json = run("explain", "pod", "large", file, "-o", "json")
    in_yaml = run("explain", "pod", "large", file, "-o", "yaml")

    document = json.loads(in_json.out)
    assert document == yaml.safe_load(in_yaml.out)
    assert [
        "pod",
        "outcome",
        "reason",
        "detail",
        "requests",
        "place",
        "wishes",
        "nodePools",
        "nodes",
    ] == list(document)
    assert ("default/large", "NewNode") == (document["pod"], document["outcome"])


def test_wishes_are_marked() -> None:
    preference = {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "Exists"}]}
    gone = {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["z"]}]}
    wanted = pod(
        affinity={
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "preference": preference},
                    {"weight": 2, "preference": gone},
                ]
            }
        }
    )

    lines = told("web", put("c.json", pool(), wanted))

    at = lines.index("├── preferences")
    assert [
        "│   ├── ✓ prefers kubernetes.io/arch Exists (weight 5)",
        "│   └── ✗ prefers kubernetes.io/arch In [z] (weight 2): given up",
    ] == lines[at + 1 : at + 3]


def test_many_pools_are_cut_short_with_what_is_possible_first() -> None:
    closed = [pool(f"p{n}", taints=[GPU_TAINT]) for n in range(40)]

    lines = told("web", put("c.json", *closed, pool("a-open"), pod()))

    at = lines.index("└── pools: 1 of 41 would make a node for it")
    assert "✓ a-open (used)" in lines[at + 1]
    assert lines[-1].endswith("… and 11 pools more; -o json has them all")


@pytest.mark.parametrize("kind", ["pods", "po", "Pods"])
def test_pods_go_by_the_names_of_kubectl(kind: str, file: str) -> None:
    ran = run("explain", kind, "small", file)

    assert (0, True) == (ran.code, ran.out.startswith("Pod default/small "))


@pytest.mark.parametrize(
    ("kinds", "name"),
    [
        (["node", "nodes", "no", "nodeclaim", "nodeclaims"], "n1"),
        (["nodepool", "nodepools", "np"], "general"),
    ],
)
def test_other_kinds_go_by_the_names_of_kubectl(kinds: list[str], name: str, file: str) -> None:
    first, *others = [run("explain", kind, name, file) for kind in kinds]

    assert 0 == first.code
    assert [first.out] * len(others) == [other.out for other in others]


def deployment(name: str, namespace: str, replicas: int, cpu: str) -> dict[str, object]:
    labels = {"app": name}
    requests = {"resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "web", **requests}]},
            },
        },
    }


@pytest.mark.parametrize("kind", ["deployment", "deployments", "deploy"])
def test_a_deployment_is_told_by_its_pods(kind: str) -> None:
    file = put("c.json", pool(), deployment("web", "default", 3, "300"))

    ran = run("explain", kind, "web", file)
    data = run("explain", kind, "default/web", file, "-o", "json")

    assert (0, 0) == (ran.code, data.code)
    assert 1 == ran.out.count("fits nowhere")
    assert "The same holds for 2 pods more: " in ran.out
    assert ["Unplaced"] * 3 == [each["outcome"] for each in json.loads(data.out)["items"]]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("api", "several Deployments are called api: say which of a/api, b/api"),
        ("shop/api", "there is no Deployment shop/api; did you mean a/api?"),
        ("shop/web", "there is no Deployment shop/web among the 3 there are"),
        (
            "idle",
            "Deployment default/idle has no pods and asks for none; karpenter plan shows all pods",
        ),
    ],
)
def test_a_deployment_that_cannot_be_told_is_one_sentence(name: str, said: str) -> None:
    apis = [deployment("api", namespace, 1, "1") for namespace in ("a", "b")]
    idle = deployment("idle", "default", 0, "1")

    ran = run("explain", "deploy", name, put("c.json", pool(), *apis, idle))

    assert (2, "", [f"error: {said}"]) == (ran.code, ran.out, ran.errors)


def replica_set(name: str, owner: str = "", app: str = "") -> dict[str, object]:
    """A ReplicaSet with nothing to make, of a Deployment or of nobody."""
    made = deployment(app or owner or name, "default", 0, "1")
    metadata: dict[str, object] = {"name": name, "namespace": "default"}
    if owner:
        metadata["ownerReferences"] = [owned_by("Deployment", owner)]
    return {**made, "kind": "ReplicaSet", "metadata": metadata}


def owned_by(kind: str, name: str) -> dict[str, object]:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}


def waiting(name: str, owner: str = "", app: str = "") -> dict[str, object]:
    made = pod(name)
    made["metadata"]["labels"] = {"app": app}
    if owner:
        made["metadata"]["ownerReferences"] = [owned_by("ReplicaSet", owner)]
    return made


def pods_of(name: str, *objects: dict[str, object]) -> list[str]:
    ran = run("explain", "deployment", name, put("c.json", pool(), *objects), "-o", "json")
    assert 0 == ran.code, ran.err
    found = json.loads(ran.out)
    return [each["pod"].removeprefix("default/") for each in found.get("items", [found])]


def test_deployments_whose_names_begin_alike_have_their_own_pods() -> None:
    objects = [
        deployment("web", "default", 1, "1"),
        deployment("web-api", "default", 1, "1"),
        replica_set("web-5d9f", owner="web"),
        replica_set("web-api-7c4b", owner="web-api"),
        waiting("web-5d9f-a", owner="web-5d9f", app="web"),
        waiting("web-api-7c4b-b", owner="web-api-7c4b", app="web-api"),
    ]

    assert ["web-5d9f-a"] == pods_of("web", *objects)
    assert ["web-api-7c4b-b"] == pods_of("web-api", *objects)


def test_a_replica_set_that_is_named_like_one_of_a_deployment_is_not_its_own() -> None:
    objects = [
        deployment("web", "default", 1, "1"),
        replica_set("web-5d9f", owner="web"),
        replica_set("web-api"),  # of nobody
        waiting("mine", owner="web-5d9f", app="web"),
        waiting("theirs", owner="web-api", app="web-api"),
    ]

    assert ["mine"] == pods_of("web", *objects)


def test_the_owner_counts_whatever_the_replica_set_is_called() -> None:
    objects = [
        deployment("web", "default", 1, "1"),
        replica_set("cut-short", owner="web"),
        waiting("mine", owner="cut-short", app="web"),
    ]

    assert ["mine"] == pods_of("web", *objects)


def test_the_name_of_a_replica_set_has_to_do_where_there_is_none() -> None:
    web = deployment("web", "default", 1, "1")
    pods = [waiting("mine", "web-5d9f", "web"), waiting("theirs", "web-api", "web-api")]

    assert ["mine"] == pods_of("web", web, *pods)
    assert ["mine"] == pods_of("web", pods[0])


def test_a_deployment_takes_pods_in_that_nobody_controls() -> None:
    web = deployment("web", "default", 2, "1")

    assert ["mine", "web-0"] == pods_of("web", web, waiting("mine", app="web"), waiting("other"))


def test_a_deployment_is_found_in_the_namespace_that_is_named() -> None:
    file = put("c.json", pool(), *(deployment("api", each, 1, "1") for each in ("a", "b")))

    found = run("explain", "deployment", "api", "-n", "b", file, "-o", "json")
    twice = run("explain", "deployment", "a/api", "-n", "b", file)

    assert "b/api-0" == json.loads(found.out)["pod"]
    assert ["error: a/api names a namespace already: omit --namespace"] == twice.errors


def test_only_others_share_a_node_with_a_pod() -> None:
    lines = told("a", put("c.json", pool(), pod("a"), pod("b")))

    assert any(line.endswith("shared with 1 other pod of this plan: b") for line in lines)


def test_limits_that_leave_nothing_are_no_tick() -> None:
    elsewhere = pod("lost", nodeSelector={"topology.kubernetes.io/zone": "mars"})
    used_up = pool(limits={"cpu": "0"})

    lines = told("lost", put("c.json", used_up, elsewhere))

    assert not any("✓ limits" in line for line in lines)
    assert any("✗ room: no available offering has" in line for line in lines)


def test_help_names_the_kinds() -> None:
    ran = run("explain", "--help")

    assert 0 == ran.code
    assert "pod" in ran.out


def hostile(wishes: int) -> dict[str, object]:
    """A pod with so many wishes to be apart from others."""
    apart = [
        {
            "weight": 1,
            "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": f"a{number}"}},
            },
        }
        for number in range(wishes)
    ]
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": apart}}
    return pod("harm", affinity=affinity)


def test_a_pod_with_thousands_of_wishes_learns_that_they_are_too_many() -> None:
    lines = told("harm", put("h.json", pool(), hostile(3000)))

    assert "├── the pod is planned for after all others, since it lists 3,000" in lines[1]
    assert any(
        "✗ 2,744 alternatives and preferences that are too many to try: given up" in line
        for line in lines
    )
    assert len(lines) < 600


def test_a_plan_tells_of_pods_that_are_costly_to_plan_for() -> None:
    ran = run("plan", put("h.json", pool(), pod("web"), hostile(3000)), "--only", "provisioning")
    lines = ran.out.splitlines()

    told_at = lines.index("Pods that are costly to plan for")
    assert "harm" in lines[told_at + 1]
    assert "it lists 3,000 alternatives and preferences" in " ".join(lines[told_at + 1 :])


def hog() -> dict[str, object]:
    """A DaemonSet that asks for more than any machine has."""
    requests = {"requests": {"cpu": "100000"}}
    spec = {"containers": [{"name": "main", "image": "hog", "resources": requests}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "hog", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"app": "hog"}},
            "template": {"metadata": {"labels": {"app": "hog"}}, "spec": spec},
        },
    }


def test_the_daemon_that_leaves_no_room_is_named_for_new_nodes_and_for_those_that_exist() -> None:
    lines = told("web", put("d.json", pool(), node("n1"), pod("web"), hog()))

    text = " ".join(line.strip(" │├└─") for line in lines)
    assert "foremost DaemonSet kube-system/hog (100000 cpu); would fit otherwise" in text
    assert "1 node: cpu is kept for DaemonSet kube-system/hog (100000 cpu) (n1)" in text


def test_a_plan_and_the_event_of_the_pod_name_the_daemon_that_leaves_no_room() -> None:
    file = put("d.json", pool(), pod("web"), hog())
    shown = run("plan", file, "--only", "provisioning").out
    (event,) = json.loads(run("plan", file, "--only", "provisioning", "-o", "json").out)[
        "provisioning"
    ]["events"]

    assert "DaemonSet kube-system/hog (100000 cpu)" in " ".join(shown.split())
    assert ("Pod/default/web", "FailedScheduling") == (event["object"], event["reason"])
    assert "foremost DaemonSet kube-system/hog (100000 cpu); would fit" in event["message"]

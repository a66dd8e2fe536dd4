"""``karpenter plan --provider aws`` plans manifests on a simulated account, and says what it assumes."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from helpers.commands import Ran, run
from helpers.seeds import SEEDS, needs_seeds
from karpenter.inquiry import aws_catalogue
from karpenter.report.provisioning import plan_schema

pytestmark = pytest.mark.storm  # a plan with every type of EC2 takes half a second

ROOT = Path(__file__).resolve().parents[5]
EXAMPLE = str(ROOT / "examples" / "aws-plan")
SHOWN = re.findall(
    r"```console\n\$ (COLUMNS=.+)\n((?:.*\n)*?)```", (ROOT / "docs" / "aws.md").read_text("utf-8")
)
SCHEMA = jsonschema_rs.Draft202012Validator(json.loads(plan_schema()))
OWN_TAGS = [{"tags": {"karpenter.sh/discovery": "sandbox"}}]
SIMULATED = "instance types are those of a simulated AWS account in us-west-2, at estimated prices"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "VM_MEMORY_OVERHEAD_PERCENT", "RESERVED_ENIS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def node_class(name: str = "default", **spec: Any) -> dict[str, Any]:
    usual = {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": OWN_TAGS,
        "securityGroupSelectorTerms": OWN_TAGS,
    }
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name},
        "spec": {**usual, **spec},
    }


def pool(*types: str, **labels: list[str]) -> dict[str, Any]:
    """A pool of these types that buys on demand, unless its labels say otherwise."""
    wanted = {
        "karpenter.sh/capacity-type": ["on-demand"],
        **({"node.kubernetes.io/instance-type": list(types)} if types else {}),
        **labels,
    }
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {
        "nodeClassRef": reference,
        "requirements": [{"key": k, "operator": "In", "values": v} for k, v in wanted.items()],
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "general"},
        "spec": {"template": {"spec": template}},
    }


def pod(name: str = "web", *, cpu: str = "1", memory: str = "1Gi") -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container]},
    }


def put(*objects: dict[str, Any]) -> str:
    Path("c.yaml").write_text(yaml.safe_dump_all(objects), "utf-8")
    return "c.yaml"


def notes(ran: Ran) -> list[str]:
    lines = ran.err.splitlines()
    return [line.removeprefix("note: ") for line in lines if line.startswith("note: ")]


def planned(*args: str) -> tuple[dict[str, Any], list[str]]:
    """The provisioning part of a plan, held against the schema, and the notes beside it."""
    ran = run("plan", "--provider", "aws", *args, "-o", "json")
    assert (0, []) == (ran.code, ran.errors)
    document = json.loads(ran.out)  # and nothing but the plan is printed
    SCHEMA.validate(document)
    provisioning: dict[str, Any] = document["provisioning"]
    return provisioning, notes(ran)


def launches(plan: dict[str, Any]) -> list[tuple[str, float]]:
    found = [claim["launch"] for claim in plan["nodeClaims"]]
    return sorted((each["instanceType"], each["price"]) for each in found)


@pytest.mark.parametrize(("command", "expected"), SHOWN, ids=[command for command, _ in SHOWN])
def test_a_command_prints_what_its_page_shows(
    command: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("examples").symlink_to(ROOT / "examples")
    words = shlex.split(command)
    monkeypatch.setenv("COLUMNS", words.pop(0).removeprefix("COLUMNS="))
    assert words.pop(0) == "karpenter"

    ran = run(*words)

    assert (0, expected) == (ran.code, ran.out)


def test_there_are_commands_on_the_page() -> None:
    assert ["plan", "explain"] == [command.split()[2] for command, _ in SHOWN]


def test_the_example_is_planned_with_types_and_prices_of_ec2() -> None:
    plan, said = planned(EXAMPLE)

    assert [SIMULATED] == said, "all that its node class selects is in the account"
    zones = {claim["launch"]["zone"] for claim in plan["nodeClaims"]}
    assert {"us-west-2a", "us-west-2b", "us-west-2c"} >= zones
    assert ("g5.2xlarge", 1.212) in launches(plan)
    assert all(claim["launch"]["isEstimate"] for claim in plan["nodeClaims"])
    assert plan["cost"]["isEstimate"]
    assert ["default/simulation"] == [each["pod"] for each in plan["unplaced"]]


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        pytest.param("6903Mi", [("m5.large", 0.096)], id="6903Mi are left of an m5.large"),
        pytest.param("6904Mi", [("m5.xlarge", 0.192)], id="and not one more"),
        pytest.param("14162Mi", [("m5.xlarge", 0.192)], id="14162Mi are left of an m5.xlarge"),
        pytest.param("14163Mi", [("r6i.4xlarge", 1.008)], id="and not one more than those"),
        pytest.param("118312Mi", [("r6i.4xlarge", 1.008)], id="118312Mi of an r6i.4xlarge"),
        pytest.param("118313Mi", [], id="more than that fits nowhere"),
    ],
)
def test_nodes_have_the_room_of_the_worked_examples(
    memory: str, expected: list[tuple[str, float]]
) -> None:
    file = put(node_class(), pool("m5.large", "m5.xlarge", "r6i.4xlarge"), pod(memory=memory))

    plan, _ = planned(file)

    assert expected == launches(plan)


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [pytest.param("1930m", 1, id="all of it"), pytest.param("1931m", 0, id="a little more")],
)
def test_the_kubelet_keeps_its_cpu(cpu: str, expected: int) -> None:
    plan, _ = planned(put(node_class(), pool("m5.large"), pod(cpu=cpu)))

    assert expected == len(plan["nodeClaims"])


def test_pods_are_as_many_as_network_interfaces_allow() -> None:
    pods = [pod(f"p{n}", cpu="1m", memory="1Mi") for n in range(30)]

    plan, _ = planned(put(node_class(), pool("m5.large"), *pods))

    assert [1, 29] == sorted(len(claim["pods"]) for claim in plan["nodeClaims"])


def test_settings_of_the_provider_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RESERVED_ENIS", "1")
    pods = [pod(f"p{n}", cpu="1m", memory="1Mi") for n in range(20)]

    plan, _ = planned(put(node_class(), pool("m5.large"), *pods, pod("p20", cpu="1m")))

    assert [1, 20] == sorted(len(claim["pods"]) for claim in plan["nodeClaims"])


def test_kubelet_settings_that_a_pool_of_v1beta1_kept_overrule_its_class() -> None:
    kept = pool("m5.large")
    annotation = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
    kept["metadata"]["annotations"] = {annotation: json.dumps({"maxPods": 20})}
    pods = [pod(f"p{n}", cpu="1m", memory="1Mi") for n in range(21)]

    plan, _ = planned(put(node_class(kubelet={"maxPods": 10}), kept, *pods))

    assert [1, 20] == sorted(len(claim["pods"]) for claim in plan["nodeClaims"])


def test_kept_settings_that_cannot_be_read_are_said_in_one_sentence() -> None:
    kept = pool("m5.large")
    annotation = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
    kept["metadata"]["annotations"] = {annotation: "maxPods"}

    plan, said = planned(put(node_class(), kept, pod()))

    assert [] == plan["nodeClaims"]
    expected = f"NodePool general: its instance types cannot be listed: the annotation {annotation}"
    assert said[1].startswith(expected)


def test_spot_costs_less_and_is_an_estimate_too() -> None:
    spot = pool("m5.large", **{"karpenter.sh/capacity-type": ["spot", "on-demand"]})

    plan, _ = planned(put(node_class(), spot, pod()))

    (launch,) = [claim["launch"] for claim in plan["nodeClaims"]]
    assert ("spot", True) == (launch["capacityType"], launch["isEstimate"])
    assert 0.096 * 0.35 * 0.9 <= launch["price"] <= 0.096 * 0.35 * 1.1


def test_what_a_class_selects_and_the_account_has_not_is_taken_for_granted() -> None:
    mine = [{"tags": {"karpenter.sh/discovery": "mine"}}]
    theirs = node_class(
        subnetSelectorTerms=mine,
        securityGroupSelectorTerms=[{"id": "sg-0123456789"}],
        amiSelectorTerms=[{"id": "ami-0123456789"}],
        amiFamily="AL2023",
    )

    plan, said = planned(put(theirs, pool("m5.large"), pod()))

    assert [("m5.large", 0.096)] == launches(plan)
    assert [
        SIMULATED,
        (
            "EC2NodeClass default: the simulated account has none of the subnets, security groups"
            " and images it selects, so they are assumed to exist, in us-west-2a, us-west-2b and"
            " us-west-2c"
        ),
    ] == said


def test_a_class_does_without_reservations_and_groups_the_account_has_not() -> None:
    theirs = node_class(
        capacityReservationSelectorTerms=[{"id": "cr-0123456789"}],
        placementGroupSelector={"name": "mine"},
    )

    plan, said = planned(put(theirs, pool("m5.large"), pod()))

    assert [("m5.large", 0.096)] == launches(plan)
    assert [
        SIMULATED,
        (
            "EC2NodeClass default: the plan is made without the capacity reservations and placement"
            " group it selects"
        ),
    ] == said


def test_a_class_that_was_read_from_a_cluster_keeps_its_zones() -> None:
    dumped = node_class(subnetSelectorTerms=[{"id": "subnet-0123456789"}])
    dumped["status"] = {
        "subnets": [{"id": "subnet-0123456789", "zone": "us-east-1d", "zoneID": "use1-az4"}]
    }

    plan, said = planned(put(dumped, pool("m5.large"), pod()))

    assert ["us-east-1d"] == [claim["launch"]["zone"] for claim in plan["nodeClaims"]]
    assert [SIMULATED.replace("us-west-2", "us-east-1")] == said


def test_the_region_is_that_of_the_zones_in_the_manifests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    korean = pool("m5.large", **{"topology.kubernetes.io/zone": ["ap-northeast-2b"]})

    plan, _ = planned(put(node_class(), korean, pod()))

    assert ["ap-northeast-2b"] == [claim["launch"]["zone"] for claim in plan["nodeClaims"]]


def test_without_zones_the_region_is_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_REGION", "ca-central-1")  # whose zones are a, b and d

    plan, said = planned(put(node_class(), pool("m5.large"), pod()))

    assert ["ca-central-1a"] == [claim["launch"]["zone"] for claim in plan["nodeClaims"]]
    assert [SIMULATED.replace("us-west-2", "ca-central-1")] == said


def test_a_region_that_cannot_be_simulated_is_said_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_REGION", "mars-1")

    ran = run("plan", "--provider", "aws", put(node_class(), pool(), pod()))

    assert (2, "") == (ran.code, ran.out)
    (error,) = ran.errors
    assert error.startswith("error: AWS cannot be simulated in the region mars-1; those that can")


def test_without_a_pool_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(aws_catalogue, "offline_aws")

    plan, said = planned(put(node_class(), pod()))

    assert ([], []) == (plan["nodeClaims"], said)


def test_types_of_a_file_take_the_place_of_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(aws_catalogue, "offline_aws")
    way = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "z"}
    requirements = [{"key": k, "operator": "In", "values": [v]} for k, v in way.items()]
    size = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    offering = {"Price": 0.5, "Available": True, "Requirements": requirements}
    kind = {
        "name": "mine",
        "offerings": [offering],
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": size,
    }
    Path("types.json").write_text(json.dumps([kind]), "utf-8")

    file = put(node_class(), pool("mine"), pod())
    plan, _ = planned(file, "--instance-types", "types.json")

    assert [("mine", 0.5)] == launches(plan)
    assert "isEstimate" not in plan["cost"]


def test_a_pool_whose_class_is_not_among_those_there_are_says_so() -> None:
    plan, _ = planned(put(node_class("other"), pool("m5.large"), pod()))

    (unplaced,) = plan["unplaced"]
    assert [("NodeClassNotFound", "there is no EC2NodeClass default")] == [
        (each["reason"], each["detail"]) for each in unplaced["reasons"]
    ]


def test_where_there_is_no_class_at_all_a_usual_one_is_assumed() -> None:
    plan, said = planned(put(pool("m5.large"), pod()))

    assert [("m5.large", 0.096)] == launches(plan)
    assert [
        (
            "there is no EC2NodeClass in the input, so default is taken to run the latest AL2023"
            " with default settings"
        ),
        SIMULATED,
    ] == said


def test_a_pool_of_another_cloud_is_told_apart() -> None:
    foreign = pool("m5.large")
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    foreign["spec"]["template"]["spec"]["nodeClassRef"] = reference

    plan, _ = planned(put(foreign, pod()))

    (unplaced,) = plan["unplaced"]
    assert ["NodeClassUnsupported"] == [each["reason"] for each in unplaced["reasons"]]


def test_a_class_that_is_wrong_is_listed_and_nothing_is_planned() -> None:
    wrong = node_class(amiSelectorTerms=[{"alias": "al2023"}], subnetSelectorTerms=[])

    ran = run("plan", "--provider", "aws", put(wrong, pool(), pod()))

    assert (2, "") == (ran.code, ran.out)
    assert ran.errors[-1].startswith("error: nothing is planned: ")
    assert all("EC2NodeClass/default spec." in each for each in ran.errors[:-1])
    assert {"amiSelectorTerms", "subnetSelectorTerms"} == {
        re.split(r"[\[:.]", each.partition(" spec.")[2])[0] for each in ran.errors[:-1]
    }


@pytest.mark.parametrize(
    ("price", "expected"),
    [
        pytest.param({"price": "0.01"}, (0.01, False), id="a price of the user's own"),
        pytest.param({"priceAdjustment": "-50%"}, (0.096, True), id="half of what is estimated"),
    ],
)
def test_an_overlay_prices_types_of_ec2(
    price: dict[str, str], expected: tuple[float, bool]
) -> None:
    """Section 3.6: the price of an overlay decides, and the user's own is no estimate."""
    wanted = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"]}
    overlay = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "contract"},
        "spec": {"requirements": [wanted], **price},
    }

    plan, said = planned(put(node_class(), pool("m5.large", "m5.xlarge"), overlay, pod(cpu="3")))

    (claim,) = plan["nodeClaims"]
    launch = claim["launch"]
    assert ("m5.xlarge", *expected) == (
        launch["instanceType"],
        launch["price"],
        "isEstimate" in launch,
    )
    assert "true" == claim["annotations"]["karpenter.sh/price-overlay-applied"]
    assert any("NodeOverlays are planned with" in each for each in said)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param(["pod", "web-0"], "goes to a node that exists", id="a pod"),
        pytest.param(
            ["pod", "training"],
            "g5.2xlarge on-demand in us-west-2a at ~$1.2120/h (~$884.76/month, estimate) is the"
            " cheapest of 7 instance types left",
            id="a pod with its price",
        ),
        pytest.param(
            ["node", "general-7k2xv"],
            "m5.2xlarge on-demand in us-west-2a of pool general, at ~$0.3840/h (~$280.32/month,"
            " estimate)",
            id="a node",
        ),
        pytest.param(
            ["nodepool", "general"],
            "1 node: ~$0.3840 per hour, ~$280.32 per month (estimate)",
            id="a pool",
        ),
    ],
)
def test_the_example_is_explained(
    args: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    ran = run("explain", *args, EXAMPLE, "--provider", "aws", "--now", "2026-08-01T12:00:00Z")

    assert (0, [SIMULATED]) == (ran.code, notes(ran))
    assert expected in ran.out


SEED_PLANS = [
    pytest.param(
        ["s003-provisioner-default.yaml", "s003-deployment-app.yaml"],
        {"default/app-0"},
        id="a Provisioner with a provider block",
    ),
    pytest.param(
        ["s001-combined.yaml", "s003-deployment-app.yaml"],
        set(),
        id="an AWSNodeTemplate whose Provisioner has a taint",
    ),
    pytest.param(
        ["s002-nodepool-full.yaml", "s002-ec2nodeclass.yaml", "s003-deployment-app.yaml"],
        set(),
        id="v1beta1 kinds in Seoul, with a taint",
    ),
    pytest.param(
        [
            "s002-nodepool-default-team.yaml",
            "s002-ec2nodeclass.yaml",
            "s002-deployment-workload-my-team.yaml",
        ],
        {f"default/workload-my-team-{n}" for n in range(200)},
        id="v1beta1 kinds for a team",
    ),
]


@needs_seeds
@pytest.mark.parametrize(("files", "placed"), SEED_PLANS)
def test_manifests_of_users_are_planned(files: list[str], placed: set[str]) -> None:
    plan, said = planned(*(str(SEEDS / name) for name in files))

    assert placed == {each for claim in plan["nodeClaims"] for each in claim["pods"]}
    waiting = {each["pod"] for each in plan["unplaced"]}
    assert placed or {"default/app-0"} == waiting
    assert any(each.startswith("instance types are those of a simulated AWS") for each in said)


@needs_seeds
@pytest.mark.parametrize(
    "name",
    [
        "bad-s002-ec2nodeclass.yaml",
        "bad-s002-nodepool-full-semantics.yaml",
        "bad-s002-nodepool-full.yaml",
        "bad-s001-combined-ttl-and-consolidation.yaml",
        "s001-awsnodetemplate-subnetselector.yaml",
        "s001-awsnodetemplate-tags.yaml",
    ],
)
def test_manifests_that_are_wrong_are_refused_with_their_lines(name: str) -> None:
    ran = run("plan", "--provider", "aws", str(SEEDS / name))

    assert (2, "") == (ran.code, ran.out)
    assert all(re.search(rf"{re.escape(name)}:\d+", each) for each in ran.errors[:-1])
    assert ran.errors[-1].startswith("error: nothing is planned: ")

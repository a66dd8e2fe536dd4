"""``karpenter convert`` prints the whole result or none of it, and says what is wrong where."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.commands import BROKEN_PROVISIONER, DEPLOYMENT, NODE_POOL, PROVISIONER, run


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(name: str, text: str) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return name


def names(out: str) -> list[str]:
    return [f"{item['kind']}/{item['metadata']['name']}" for item in documents(out)]


def documents(out: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(out))


def test_a_provisioner_becomes_a_node_pool() -> None:
    ran = run("convert", put("p.yaml", PROVISIONER))

    assert ran.code == 0
    (pool,) = documents(ran.out)
    assert ["apiVersion", "kind", "metadata", "spec"] == list(pool)
    assert pool["apiVersion"] == "karpenter.sh/v1"
    assert pool["spec"]["disruption"] == {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": "30s",
    }
    assert ran.err == ""


def test_converting_the_result_changes_nothing() -> None:
    once = run("convert", put("p.yaml", PROVISIONER))

    twice = run("convert", "-", stdin=once.out)

    assert once.out == twice.out


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(["a.yaml", "b.yaml"], id="as arguments"),
        pytest.param(["-f", "a.yaml", "-f", "b.yaml"], id="with -f"),
        pytest.param(["a.yaml", "--filename", "b.yaml"], id="both ways"),
    ],
)
def test_several_files_keep_their_order(args: list[str]) -> None:
    put("a.yaml", PROVISIONER)
    put("b.yaml", NODE_POOL)

    ran = run("convert", *args)

    assert ran.code == 0
    assert names(ran.out) == ["NodePool/default", "NodePool/general"]
    assert ran.out.count("\n---\n") == 1


def test_several_documents_in_one_file() -> None:
    ran = run("convert", put("all.yaml", f"{NODE_POOL}---\n# next\n{PROVISIONER}---\n"))

    assert names(ran.out) == ["NodePool/general", "NodePool/default"]


def test_standard_input() -> None:
    ran = run("convert", "-", stdin=PROVISIONER)

    assert (0, ["NodePool/default"]) == (ran.code, names(ran.out))


def test_json_in_and_out() -> None:
    data = yaml.safe_load(PROVISIONER)

    ran = run("convert", "-o", "json", "-", stdin=json.dumps(data))

    assert json.loads(ran.out)["kind"] == "NodePool"


def test_several_objects_as_json_are_a_list_that_converts_again() -> None:
    both = put("all.yaml", f"{NODE_POOL}---\n{PROVISIONER}")

    ran = run("convert", "--output", "json", both)

    result = json.loads(ran.out)
    assert ("v1", "List") == (result["apiVersion"], result["kind"])
    assert ["general", "default"] == [item["metadata"]["name"] for item in result["items"]]
    assert ran.out == run("convert", "-o", "json", "-", stdin=ran.out).out


def test_a_folder_and_its_subfolders() -> None:
    put("in/b.yaml", NODE_POOL)
    put("in/a.json", json.dumps(yaml.safe_load(PROVISIONER)))
    put("in/notes.txt", "not a manifest: [")
    put("in/deep/c.yml", PROVISIONER.replace("default", "deep"))

    flat = run("convert", "in")
    deep = run("convert", "-R", "-f", "in")

    assert names(flat.out) == ["NodePool/default", "NodePool/general"]
    assert names(deep.out) == ["NodePool/default", "NodePool/general", "NodePool/deep"]


def test_one_bad_document_and_nothing_is_printed() -> None:
    path = put("all.yaml", f"{PROVISIONER}---\n{BROKEN_PROVISIONER}---\n{NODE_POOL}")

    ran = run("convert", path)

    assert (2, "") == (ran.code, ran.out)
    assert len(ran.errors) == 2
    assert ran.errors[0].startswith(
        "error: all.yaml:17: Provisioner/broken spec.ttlSecondsAfterEmpty: "
    )
    assert ran.errors[1] == "error: nothing is converted: 1 problem above"


def test_every_problem_of_every_file_is_listed() -> None:
    put("a.yaml", "a: 1\na: 2\n")
    put("b.yaml", BROKEN_PROVISIONER)
    put("c.yaml", PROVISIONER)

    ran = run("convert", "a.yaml", "missing.yaml", "b.yaml", "c.yaml")

    assert (2, "") == (ran.code, ran.out)
    assert [
        "a.yaml:2:1: the key `a` is already set on line 1; keep one of them",
        "missing.yaml: no such file or folder",
        "b.yaml:8: Provisioner/broken spec.ttlSecondsAfterEmpty",
        "nothing is converted: 3 problems above",
    ] == [line.removeprefix("error: ").split(": Forbidden")[0] for line in ran.errors]


def test_problems_of_one_object_are_listed_from_top_to_bottom() -> None:
    text = (
        "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata:\n  name: A B\nspec:\n"
        "  ttlSecondsUntilExpired: -1\n  weight: 1000\n  providerRef: {name: shop}\n"
    )

    ran = run("convert", put("p.yaml", text))

    lines = [int(line.split(":")[2]) for line in ran.errors[:-1]]
    assert lines == sorted(lines)
    assert {4, 6, 7} == set(lines)


def test_other_kinds_are_passed_over_with_a_warning() -> None:
    ran = run("convert", put("all.yaml", f"{DEPLOYMENT}---\n{PROVISIONER}"))

    assert (0, ["NodePool/default"]) == (ran.code, names(ran.out))
    assert len(ran.warnings) == 1
    assert ran.warnings[0].startswith("warning: all.yaml:2: Deployment/web ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(DEPLOYMENT, "the input holds no object that needs it", id="another kind"),
        pytest.param("", "the input is empty", id="an empty file"),
        pytest.param("# nothing\n---\n", "the input is empty", id="a comment"),
    ],
)
def test_nothing_to_convert_is_said_and_is_no_failure(text: str, said: str) -> None:
    ran = run("convert", put("f.yaml", text))

    assert (0, "") == (ran.code, ran.out)
    assert ran.err.splitlines()[-1] == f"nothing to convert: {said}"


def test_nothing_to_convert_is_still_json_for_a_program_that_reads_on() -> None:
    ran = run("convert", "-o", "json", "-", stdin="")

    assert {"apiVersion": "v1", "kind": "List", "items": []} == json.loads(ran.out)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        pytest.param([], "no input: name a file or a folder", id="no file"),
        pytest.param(["-", "-f", "-"], "standard input can be read only once", id="- twice"),
        pytest.param(["-", "--node-role", ""], "the name is empty", id="an empty role"),
        pytest.param(["-", "--instance-profile", ""], "the name is empty", id="empty profile"),
        pytest.param(["-", "--default-node-class", ""], "the name is empty", id="empty class"),
        pytest.param(["-", "-o", "xml"], "xml", id="an unknown format"),
        pytest.param(["-", "--legacy-defaults", "never"], "never", id="an unknown profile"),
        pytest.param(["-", "--nonsense"], "--nonsense", id="an unknown option"),
    ],
)
def test_wrong_usage(args: list[str], said: str) -> None:
    ran = run("convert", *args, stdin=PROVISIONER)

    assert (2, "") == (ran.code, ran.out)
    assert said in ran.err


def test_options_reach_the_converter() -> None:
    text = PROVISIONER.replace("  providerRef:\n    name: shop\n", "")

    refused = run("convert", "-", stdin=text)
    classed = run("convert", "-", "--default-node-class", "general", stdin=text)

    assert refused.code == 2
    assert "--default-node-class" in refused.errors[0]
    (pool,) = documents(classed.out)
    assert pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "general"


@pytest.mark.parametrize(
    ("args", "keys"),
    [
        pytest.param(
            [],
            [
                "kubernetes.io/os",
                "kubernetes.io/arch",
                "karpenter.sh/capacity-type",
                "karpenter.k8s.aws/instance-category",
                "karpenter.k8s.aws/instance-generation",
            ],
            id="late by default",
        ),
        pytest.param(
            ["--legacy-defaults", "early"],
            ["kubernetes.io/arch", "karpenter.sh/capacity-type"],
            id="early",
        ),
        pytest.param(["--ignore-defaults"], [], id="none"),
    ],
)
def test_legacy_defaults(args: list[str], keys: list[str]) -> None:
    ran = run("convert", "-", *args, stdin=PROVISIONER)

    (pool,) = documents(ran.out)
    requirements = pool["spec"]["template"]["spec"]["requirements"]
    assert sorted(keys) == sorted(requirement["key"] for requirement in requirements)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param(["--node-role", "R"], {"role": "R"}, id="a role"),
        pytest.param(["--instance-profile", "P"], {"instanceProfile": "P"}, id="a profile"),
    ],
)
def test_identity_of_nodes(args: list[str], expected: dict[str, str]) -> None:
    template = (
        "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: shop}\n"
        "spec:\n  amiFamily: Bottlerocket\n  subnetSelector: {a: b}\n"
        "  securityGroupSelector: {a: b}\n"
    )

    ran = run("convert", "-", *args, stdin=template)

    (node_class,) = documents(ran.out)
    spec = node_class["spec"]
    assert expected == {key: spec[key] for key in ("role", "instanceProfile") if key in spec}


def test_lines_in_a_list_from_kubectl() -> None:
    items = [yaml.safe_load(PROVISIONER), yaml.safe_load(BROKEN_PROVISIONER)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2)
    line = max(i for i, row in enumerate(text.splitlines(), 1) if "ttlSecondsAfterEmpty" in row)

    ran = run("convert", put("list.json", text))

    assert ran.errors[0].startswith(f"error: list.json:{line}: Provisioner/broken ")

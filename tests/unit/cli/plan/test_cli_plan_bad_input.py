"""What is wrong is one sentence with its place, or a reason in the plan; never a traceback."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.cluster_texts import (
    class_ref,
    deployment,
    instance_type,
    node,
    planned,
    pod,
    pool,
    put,
    reasons,
    text_of,
)
from helpers.commands import run

NODE_CLASS = {
    "apiVersion": "karpenter.kwok.sh/v1alpha1",
    "kind": "KWOKNodeClass",
    "metadata": {"name": "default"},
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


@pytest.mark.parametrize(
    ("args", "said"),
    [
        pytest.param(
            ["-", "--context", "prod"], "--context applies to a live cluster", id="a context"
        ),
        pytest.param(["-", "--only", "nonsense"], "nonsense", id="an unknown part"),
        pytest.param(["-", "--provider", "kwk"], "did you mean kwok?", id="a provider"),
        pytest.param(["-", "--set", "NAME"], "'NAME' is not of the form NAME=VALUE", id="no value"),
        pytest.param(["-", "--set", "=x"], "'=x' is not of the form NAME=VALUE", id="no name"),
        pytest.param(
            ["-", "--set", "PREFERENCE_POLCY=x"], "did you mean PREFERENCE_POLICY?", id="a setting"
        ),
        pytest.param(
            ["-", "--set", "PREFERENCE_POLICY=x"], "'x' is none of the choices", id="a choice"
        ),
        pytest.param(
            ["-", "--set", "SCHEDULER_CONFIG={a"], "SCHEDULER_CONFIG", id="a configuration"
        ),
        pytest.param(["-", "--now", "noon"], "--now: 'noon' is not a time", id="a time"),
        pytest.param(
            ["-", "--now", "0001-01-01T00:00:00+14:00"],
            "is not within the years 1970 and 2999",
            id="a time before there was any",
        ),
        pytest.param(
            ["-", "--now", "9999-12-31T23:59:59Z"],
            "is not within the years 1970 and 2999",
            id="the end of time",
        ),
        pytest.param(
            ["-", "--now", "2026-08-01T12:00:00"], "with a zone", id="a time without a zone"
        ),
        pytest.param(["-", "--time-budget", "soon"], "'soon' is not a duration", id="a duration"),
        pytest.param(["-", "--time-budget", "-1s"], "'-1s' is not a duration", id="less than none"),
        pytest.param(["-", "--instance-types", "gone.json"], "gone.json: no such file", id="types"),
        pytest.param(["-", "--instance-types", "."], ".: is a directory", id="a folder of types"),
        pytest.param(["gone.yaml"], "gone.yaml: no such file or folder", id="a missing file"),
        pytest.param(["-", "-o", "xml"], "xml", id="a format"),
    ],
)
def test_wrong_usage_is_one_sentence(args: list[str], said: str) -> None:
    ran = run("plan", *args, stdin=text_of(pool(), pod()))

    assert (2, "") == (ran.code, ran.out)
    assert said in ran.err
    assert len(ran.errors) <= 2


@pytest.mark.parametrize(
    ("items", "said"),
    [
        pytest.param([pool(), pod(cpu="-1")], "must not be negative", id="a negative request"),
        pytest.param([pool(), pod(cpu="much")], "must be a quantity", id="no quantity"),
        pytest.param([pool(limits={"cpu": "-5"})], "must not be negative", id="a negative limit"),
        pytest.param([pool(limits={"cpu": "1e9999"})], "must be a quantity", id="an absurd limit"),
        pytest.param([node(cpu="x")], "must be a quantity", id="a machine of no size"),
        pytest.param([pool(), pool()], "NodePool general is given twice", id="a pool twice"),
        pytest.param([pod(), pod()], "Pod default/web is given twice", id="a pod twice"),
        pytest.param([{"a": 1}], "apiVersion", id="no object"),
        pytest.param(
            [{**pod(), "apiVersion": "v2"}], 'did you mean version "v1"?', id="a pod of v2"
        ),
        pytest.param(
            [{"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": {"name": "a"}}],
            'did you mean version "apps/v1"?',
            id="a deployment of old",
        ),
        pytest.param(
            [{**pool(), "apiVersion": "karpenter.sh/v2"}], "is known as", id="an unknown version"
        ),
        pytest.param(
            [{**pool(), "kind": "NodePol"}], "did you mean NodePool?", id="a misspelt kind"
        ),
        pytest.param([pool(requirements=None)], "requirements", id="a pool without requirements"),
        pytest.param(
            [pool(requirements=[{"key": "a/b/c", "operator": "In", "values": ["x"]}])],
            "spec.template.spec.requirements[0].key",
            id="a bad key",
        ),
        pytest.param([{**pod(), "spec": "none"}], "spec", id="a spec that is text"),
        pytest.param(
            [deployment(10_000_000)],
            "asks for 10000000 pods",
            id="more pods than any cluster holds",
        ),
    ],
)
def test_bad_input_is_named_with_its_place_and_nothing_is_planned(
    items: list[dict[str, Any]], said: str
) -> None:
    ran = run("plan", put("bad.json", *items))

    assert (2, "") == (ran.code, ran.out)
    assert said in ran.err
    assert all(line.startswith("error: bad.json:1") for line in ran.errors[:-1])
    assert ran.errors[-1].startswith("error: nothing is planned: ")


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        pytest.param("30d", "; write 720h instead", id="days"),
        pytest.param("2 weeks", "; write 336h instead", id="weeks"),
        pytest.param("soon", "", id="no number at all"),
    ],
)
def test_a_duration_is_refused_in_words(given: str, advice: str) -> None:
    item = pool()
    item["spec"]["template"]["spec"]["expireAfter"] = given

    ran = run("plan", put("bad.json", item, pod()))

    said = (
        "a duration is made of numbers with the units h, m and s, such as 1h30m, or is Never"
        f"{advice}"
    )
    assert 2 == ran.code
    assert ran.errors[0].endswith(f'expireAfter: Invalid value: "{given}": {said}')


@pytest.mark.parametrize("key", ["apiVersion", "kind"])
@pytest.mark.parametrize("value", [[], {}, None, 1])
def test_a_kind_that_is_no_text_is_a_problem(key: str, value: object) -> None:
    ran = run("plan", put("c.json", {**pod(), key: value}, {**pool(), "kind": "CronJob"}))

    assert 2 == ran.code
    assert f" {key}: {'Required' if value is None else 'Invalid'} value" in ran.errors[0]


def test_an_amount_that_is_none_is_one_problem() -> None:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod(cpu="lots")["spec"]}
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template},
    }

    ran = run("plan", put("c.json", workload))

    first, last = ran.errors
    assert 'resources.requests.cpu: Invalid value: "lots": must be a quantity' in first
    assert "error: nothing is planned: 1 problem above" == last


@pytest.mark.parametrize("text", ["", "# nothing\n---\n"])
def test_input_without_an_object_is_pointed_out(text: str) -> None:
    Path("empty.yaml").write_text(text, "utf-8")

    of_file, of_stream = run("plan", "empty.yaml"), run("plan", "-", stdin=text)
    laid_over = run("plan", put("c.json", pool()), "--with", "empty.yaml")

    assert [0, 0, 0] == [each.code for each in (of_file, of_stream, laid_over)]
    assert "note: there is no object in empty.yaml\n" == of_file.err
    assert "note: there is no object in standard input\n" == of_stream.err
    assert "note: there is no object in empty.yaml\n" == laid_over.err


def test_lines_are_those_of_the_file() -> None:
    Path("p.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n"
        "    - name: c\n      resources:\n        requests:\n          cpu: -2\n",
        "utf-8",
    )

    ran = run("plan", "p.yaml")

    assert ran.errors[0] == (
        "error: p.yaml:10: Pod/a spec.containers[0].resources.requests.cpu: Invalid value: -2: "
        "must not be negative"
    )


@pytest.mark.parametrize("name", ["values.yaml", "package.json", "notes.txt"])
def test_a_file_of_another_kind_is_one_sentence(name: str) -> None:
    contents = {
        "values.yaml": "replicas: 3\nimage: x\n",
        "package.json": '{"name": "x", "version": "1"}',
        "notes.txt": "buy milk\n",
    }
    Path(name).write_text(contents[name], "utf-8")

    ran = run("plan", name)

    assert (2, "") == (ran.code, ran.out)
    assert ran.errors[0].startswith(f"error: {name}:1")


@pytest.mark.parametrize(
    ("types", "said"),
    [
        pytest.param("{}", "must be a JSON list", id="no list"),
        pytest.param("[]", "the list is empty", id="an empty list"),
        pytest.param("not json", "is not JSON", id="no JSON"),
        pytest.param(json.dumps([instance_type(price=-1)]), "price", id="a negative price"),
        pytest.param(
            json.dumps([instance_type(price=float("nan"))]), "price", id="a price that is none"
        ),
        pytest.param(json.dumps([instance_type(), instance_type()]), "twice", id="a name twice"),
    ],
)
def test_a_bad_catalogue_is_one_sentence(types: str, said: str) -> None:
    Path("types.json").write_text(types, "utf-8")

    ran = run("plan", put("c.json", pool(), pod()), "--instance-types", "types.json")

    assert (2, "", 1) == (ran.code, ran.out, len(ran.errors))
    assert said in ran.err
    assert "types.json" in ran.err


def _no_offering() -> list[dict[str, Any]]:
    return [instance_type(available=False)]


@pytest.mark.parametrize(
    ("items", "types", "expected"),
    [
        pytest.param(
            [pool(), pod("impossible", "1000000000")],
            None,
            {"default/impossible": ["InsufficientResources"]},
            id="an impossible pod",
        ),
        pytest.param(
            [pool(), pod("none", nodeSelector={"team": "x"})],
            None,
            {"default/none": ["UndefinedLabel"]},
            id="a label nobody has",
        ),
        pytest.param(
            [
                pool(
                    requirements=[
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                        {"key": "kubernetes.io/arch", "operator": "NotIn", "values": ["amd64"]},
                    ]
                ),
                pod(),
            ],
            None,
            {"default/web": ["NoCompatibleInstanceTypes"]},
            id="a pool that contradicts itself",
        ),
        pytest.param(
            [pool(nodeClassRef={**class_ref(), "name": "gone"}), NODE_CLASS, pod()],
            None,
            {"default/web": ["NodeClassNotFound"]},
            id="a pool whose class is missing",
        ),
        pytest.param(
            [pool(limits={"cpu": "0"}), pod()],
            None,
            {"default/web": ["LimitExceeded"]},
            id="a pool that may not grow",
        ),
        pytest.param(
            [pool(), pod()],
            _no_offering,
            {"default/web": ["SoldOut"]},
            id="a catalogue with no offering",
        ),
    ],
)
def test_what_cannot_work_is_a_reason_in_the_plan(
    items: list[dict[str, Any]],
    types: Callable[[], list[dict[str, Any]]] | None,
    expected: dict[str, list[str]],
) -> None:
    args = []
    if types is not None:
        Path("types.json").write_text(json.dumps(types()), "utf-8")
        args = ["--instance-types", "types.json"]

    plan = planned(put("c.json", *items), *args)

    assert expected == reasons(plan)
    assert [] == plan["nodeClaims"]


def test_many_pools_are_planned_with_and_the_view_stays_short() -> None:
    closed = [pool(f"p{n}", taints=[{"key": f"t{n}", "effect": "NoSchedule"}]) for n in range(300)]
    file = put("c.json", *closed, pod())

    plan = planned(file)
    view = run("plan", file, "--only", "provisioning").out

    assert 300 == len(reasons(plan)["default/web"])
    assert "… and 288 pools more; -o json has them all" in view
    assert len(view.splitlines()) < 30


@pytest.mark.slow
def test_ten_thousand_pools() -> None:
    closed = [
        pool(f"p{n}", taints=[{"key": f"t{n}", "effect": "NoSchedule"}]) for n in range(10_000)
    ]

    plan = planned(put("c.json", *closed, pod()))

    assert 10_000 == len(reasons(plan)["default/web"])


def test_what_a_manifest_says_cannot_steer_the_terminal() -> None:
    tainted = pool(taints=[{"key": "a", "value": "[red]x[/red]", "effect": "NoSchedule"}])
    machine = node()
    machine["spec"] = {"taints": [{"key": "b", "value": "\x1b[2J", "effect": "NoSchedule"}]}

    ran = run("plan", put("c.json", tainted, machine, pod()))
    explained = run("explain", "pod", "web", "c.json")

    assert "\x1b" not in ran.out + ran.err + explained.out + explained.err

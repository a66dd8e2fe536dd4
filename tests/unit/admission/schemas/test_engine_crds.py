"""Any CRD compiles to its versions, the project's own are found by kind and read when needed."""

import subprocess
import sys
from typing import Any

import pytest

from karpenter.admission.schemas.crds import (
    LEGACY,
    builtin_crds,
    converted_by,
    crd_name,
    plural,
    stored_only,
)
from karpenter.admission.schemas.engine import Names, Scale, builtin, compile_crd
from karpenter.admission.schemas.schema import CrdError
from unit.admission.small_crds import TEXT, compiled, crd, fields, ruled, widget

ALL = sorted(builtin_crds())


@pytest.mark.parametrize("name", ALL)
def test_every_crd_of_the_project_compiles(name: str) -> None:
    definition = builtin_crds()[name]

    versions = compile_crd(definition)

    assert [entry["name"] for entry in definition["spec"]["versions"]] == list(versions)


@pytest.mark.parametrize("name", ALL)
def test_no_crd_of_the_project_asks_for_a_status(name: str) -> None:
    # so that an object which is valid with its status is valid without it, too
    for version in builtin_crds()[name]["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        rules = [rule["rule"] for rule in schema.get("x-kubernetes-validations", ())]

        assert "status" not in schema.get("required", ())
        assert not [rule for rule in rules if "status" in rule]


@pytest.mark.parametrize("name", ALL)
def test_the_file_of_a_crd_is_found_by_its_kind_alone(name: str) -> None:
    definition = builtin_crds()[name]
    kind = definition["spec"]["names"]["kind"]

    found = crd_name(definition["spec"]["group"], kind), plural(kind)

    assert (definition["metadata"]["name"], definition["spec"]["names"]["plural"]) == found


@pytest.mark.parametrize("name", ALL)
def test_without_a_webhook_only_the_stored_version_takes_objects(name: str) -> None:
    crd = stored_only(builtin_crds()[name])
    shipped = builtin_crds()[name]

    for version in crd["spec"]["versions"]:
        compiled = compile_crd(crd)[version["name"]]
        group, kind = crd["spec"]["group"], crd["spec"]["names"]["kind"]
        obj = {
            "apiVersion": f"{group}/{version['name']}",
            "kind": kind,
            "metadata": {"name": "x"},
            "spec": {},
        }
        refusals = [
            error for error in compiled.validate(obj) if "karpenter convert" in error.detail
        ]

        assert bool(refusals) is not version["storage"]
    # What the API server remembers as stored has to stay in the list of versions
    assert [each["name"] for each in shipped["spec"]["versions"]] == [
        each["name"] for each in crd["spec"]["versions"]
    ]


@pytest.mark.parametrize("name", ALL)
def test_with_a_webhook_every_version_is_served_as_shipped(name: str) -> None:
    shipped = builtin_crds()[name]

    crd = converted_by(shipped, "karpenter", "hooks")

    assert shipped["spec"]["versions"] == crd["spec"]["versions"]
    if len(shipped["spec"]["versions"]) == 1:
        assert shipped == crd
    else:
        client = crd["spec"]["conversion"]["webhook"]["clientConfig"]
        expected = ("karpenter", "hooks", f"/convert/{shipped['spec']['group']}")
        assert expected == tuple(client["service"][key] for key in ("namespace", "name", "path"))


def test_legacy_crds_can_be_left_out() -> None:
    assert set(LEGACY) == set(builtin_crds()) - set(builtin_crds(legacy=False))


def test_a_crd_that_does_not_exist_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        builtin_crds()["machines.karpenter.sh"]


def test_one_kind_does_not_read_the_files_of_the_others() -> None:
    script = """
import yaml
from karpenter.admission.schemas.engine import builtin
read = []
load = yaml.load
yaml.load = lambda text, Loader: read.append(text) or load(text, Loader=Loader)
builtin("karpenter.sh/v1", "NodePool")
builtin("karpenter.sh/v1beta1", "NodePool")
builtin("v1", "Pod")
print(len(read))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout == "1\n"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("NodePool", "nodepools"),
        ("EC2NodeClass", "ec2nodeclasses"),
        ("NodeOverlay", "nodeoverlays"),
        ("Policy", "policies"),
    ],
)
def test_plural(kind: str, expected: str) -> None:
    assert expected == plural(kind)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        pytest.param("karpenter.sh/v2", "NodePool", id="a version that does not exist"),
        pytest.param("karpenter.sh/v1", "Nodepool", id="a kind in another spelling"),
        pytest.param("example.com/v1", "NodePool", id="another group"),
        pytest.param("v1", "Pod", id="a kind of Kubernetes"),
    ],
)
def test_what_the_project_does_not_define_is_not_found(api_version: str, kind: str) -> None:
    assert builtin(api_version, kind) is None


def test_a_kind_is_compiled_once() -> None:
    assert builtin("karpenter.sh/v1", "NodePool") is builtin("karpenter.sh/v1", "NodePool")


def test_what_a_server_needs_to_know_about_a_version() -> None:
    definition = crd(fields())
    definition["spec"]["names"] |= {"shortNames": ["wd"], "categories": ["all"]}
    definition["spec"]["versions"][0] |= {
        "deprecated": True,
        "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".a"}],
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
        },
    }

    version = compile_crd(definition)["v1"]

    expected = {
        "group": "example.com",
        "version": "v1",
        "kind": "Widget",
        "plural": "widgets",
        "api_version": "example.com/v1",
        "scope": "Cluster",
        "names": Names("widgets", "widget", "WidgetList", ("wd",), ("all",)),
        "is_served": True,
        "is_stored": True,
        "deprecation": "example.com/v1 Widget is deprecated",
        "has_status": True,
        "scale": Scale(".spec.n", ".status.n", None),
        "columns": ({"name": "Age", "type": "date", "jsonPath": ".a"},),
    }
    assert expected == {name: getattr(version, name) for name in expected}


def test_a_version_without_extras() -> None:
    version = compiled(fields())

    assert (
        version.has_status,
        version.scale,
        version.columns,
        version.deprecation,
    ) == (False, None, (), None)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"versions": []}, "spec.versions: Required value", id="no versions"),
        pytest.param({"group": None}, "spec.group: Required value", id="no group"),
        pytest.param({"names": {"kind": "A"}}, "spec.names.plural: Required value", id="no plural"),
        pytest.param(
            {"versions": [{"name": "v1"}]},
            "spec.versions[0].schema.openAPIV3Schema.type: Required value",
            id="no schema",
        ),
    ],
)
def test_a_crd_that_lacks_something_is_refused(change: dict[str, Any], problem: str) -> None:
    definition = crd(fields())
    definition["spec"] |= change

    with pytest.raises(CrdError, match=r"^the CRD widgets\.example\.com is invalid: ") as caught:
        compile_crd(definition)

    assert [problem] == [str(e).removesuffix(f": {e.detail}") for e in caught.value.errors]


def test_all_problems_of_all_versions_are_reported_at_once() -> None:
    definition = crd(
        fields(a=ruled(TEXT, "self ==", "foo()"), b={"type": "string", "pattern": "("})
    )
    second = crd(ruled(fields(), "self +"))["spec"]["versions"][0]
    definition["spec"]["versions"].append(second | {"name": "v2"})

    with pytest.raises(CrdError) as caught:
        compile_crd(definition)

    assert [error.path[2] for error in caught.value.errors] == [0, 0, 0, 1]


def test_admit_prunes_then_fills_in_then_checks() -> None:
    schema = {**fields(size={**TEXT, "default": "small"}, name=TEXT), "required": ["name"]}

    admitted = compiled(schema).admit(widget({"odd": 1}))

    assert (widget({"size": "small"}), ["spec.name: Required value"], [("spec", "odd")]) == (
        admitted.object,
        [str(error) for error in admitted.errors],
        admitted.pruned,
    )

"""What the charts have from elsewhere is as it is there, and what they say of values is complete."""

import json
import re
from pathlib import Path

import pytest
import yaml

import chart_values
import charts
from helpers.helm import CRDS, MAIN, Helm, read
from helpers.rights import INSTALL
from karpenter import __version__
from karpenter.admission.schemas.crds import builtin_crds
from karpenter.model.quantity import millis
from karpenter.settings import DEFAULT_GATES

TEXTS = list(charts.texts())
GATES = "settings.featureGates."
DOCUMENTED = chart_values.read(MAIN / "values.yaml")


@pytest.mark.parametrize(
    ("path", "text"), TEXTS, ids=[path.relative_to(charts.ROOT).as_posix() for path, _ in TEXTS]
)
def test_a_file_is_as_it_would_be_written(path: Path, text: str) -> None:
    assert text == path.read_text("utf-8"), "run: make charts"


def test_there_is_no_other_file() -> None:
    written = {path for path, _ in TEXTS}
    found = {*(MAIN / "crds").rglob("*"), *(CRDS / "files").rglob("*.yaml")}
    found |= {path for path in (MAIN / "files").rglob("*") if path.is_file()}
    assert found <= written


@pytest.mark.case("OPS-9")
def test_the_roles_for_those_without_helm_are_those_of_the_chart(helm: Helm) -> None:
    written = dict(charts.install_texts(helm.program))

    # The recorder's role is no part of the chart, which runs no recorder
    assert set(INSTALL.rglob("*.yaml")) - {INSTALL / "rbac-record.yaml"} == written.keys()
    assert [path.name for path, text in written.items() if text != path.read_text("utf-8")] == []


@pytest.mark.parametrize("chart", [MAIN, CRDS], ids=lambda chart: chart.name)
@pytest.mark.row("S2-47")
def test_versions_are_those_of_the_program(chart: Path) -> None:
    about = yaml.safe_load((chart / "Chart.yaml").read_text("utf-8"))

    assert (__version__, __version__) == (about["version"], about["appVersion"])
    assert ">=1.28.0-0" == about["kubeVersion"]


@pytest.mark.row("S2-48")
def test_the_chart_brings_the_crds_of_every_kind() -> None:
    files = {path.stem: read(path.read_text("utf-8")) for path in (MAIN / "crds").iterdir()}

    assert set(builtin_crds(legacy=False)) == files.keys()
    assert [name for name, (crd,) in files.items() if crd["metadata"]["name"] != name] == []


def test_every_feature_gate_is_a_value_and_its_default_is_told() -> None:
    gates = {value.name.removeprefix(GATES): value for value in DOCUMENTED if GATES in value.name}

    assert {name[0].lower() + name[1:] for name in DEFAULT_GATES} == gates.keys()
    told = {name: re.findall(r"\b(on|off) if not set", value.text) for name, value in gates.items()}
    meant = {
        name[0].lower() + name[1:]: ["on" if on else "off"] for name, on in DEFAULT_GATES.items()
    }
    assert meant == told


def test_a_value_that_nothing_describes_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("# -- Some.\nsome: {}\nother:\n  # a remark\n  part: 1\n")

    with pytest.raises(ValueError, match=r"values\.yaml: nothing describes other\.part"):
        chart_values.read(file)


def test_a_default_that_says_nothing_needs_a_type(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("# -- Some.\nsome: null\n")

    with pytest.raises(ValueError, match=r"some: a value without a default needs a type"):
        chart_values.schema(chart_values.read(file))


def test_descriptions_of_several_lines_and_parts_of_values_are_read(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(
        '# -- First,\n# and on.\n# @schema {"minimum": 1}\nfirst: 2\n'
        "outer:\n  # -- Second.\n  second:\n    a: [b]\n  # -- Third.\n  third: false\n"
    )
    found = chart_values.read(file)

    assert [
        ("first", "First, and on.", 2),
        ("outer.second", "Second.", {"a": ["b"]}),
        ("outer.third", "Third.", False),
    ] == [(value.name, value.text, value.default) for value in found]
    schema = json.loads(chart_values.schema(found))
    assert {"description": "First, and on.", "type": "integer", "minimum": 1} == (
        schema["properties"]["first"]
    )
    outer = schema["properties"]["outer"]
    assert outer["additionalProperties"] is False
    assert {"description": "Second.", "type": "object"} == outer["properties"]["second"]
    assert "| `outer.second` | `{a: [b]}` | Second. |" in chart_values.table(found)


@pytest.mark.row("S3-07")
def test_what_the_controller_asks_for_is_documented_and_fills_the_bed_of_the_walk() -> None:
    described = {value.name: value.text for value in DOCUMENTED}
    assert "1 CPU and 1Gi of memory" in described["controller.resources"]

    bed = charts.ROOT / "examples" / "scale-walk" / "cluster.yaml"
    (node, *workloads) = read(bed.read_text("utf-8"))
    system = [each for each in workloads if each["metadata"]["namespace"] == "kube-system"]
    requests = [
        millis(part["resources"]["requests"]["cpu"]) * each["spec"].get("replicas", 1)
        for each in system
        for part in each["spec"]["template"]["spec"]["containers"]
    ]
    share = sum(requests) / millis(node["status"]["allocatable"]["cpu"])
    assert 73 == int(share * 100)

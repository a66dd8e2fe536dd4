"""Every manifest of the seed documents is read, judged and converted as its index says.

The fixtures live beside the repository; without them nothing here can be proved and the tests are
skipped by name.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pytest
import yaml

from helpers.seeds import ABSENT, SEEDS
from karpenter.admission.check import check
from karpenter.admission.errors import FieldError
from karpenter.conversion.convert import Conversion, Options, convert_all
from karpenter.manifests.errors import ManifestError
from karpenter.manifests.reader import read

INDEX = SEEDS / "index.yaml"
ENTRIES: list[dict[str, Any]] = (
    yaml.safe_load(INDEX.read_text("utf-8"))["files"] if INDEX.exists() else []
)
DEFAULTS = {"parse": "ok", "claimed": "accept", "v1": "accept"}
OPTIONS = Options(node_role="R", default_node_class="given")

# What is not an object of any API, whatever the index says about its conversion
NO_API_OBJECT = {"s002-helm-values.yaml"}

Check: TypeAlias = Callable[[Conversion], None]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "entry" in metafunc.fixturenames:
        absent = pytest.param({}, id="no fixtures", marks=pytest.mark.skip(reason=ABSENT))
        known = [pytest.param(entry, id=entry["file"]) for entry in ENTRIES]
        metafunc.parametrize("entry", known or [absent])


def load(name: str) -> list[dict[str, Any]]:
    return [document.data for document in read((SEEDS / name).read_bytes(), name)]


def the_object(conversion: Conversion, kind: str) -> dict[str, Any]:
    (found,) = [
        obj for result in conversion.results for obj in result.objects if obj["kind"] == kind
    ]
    return found


def all_errors(conversion: Conversion) -> list[FieldError]:
    return [error for result in conversion.results for error in result.errors]


def node_of(conversion: Conversion) -> dict[str, Any]:
    spec: dict[str, Any] = the_object(conversion, "NodePool")["spec"]["template"]["spec"]
    return spec


def requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


LATE_DEFAULTS = [
    requirement("kubernetes.io/os", "In", "linux"),
    requirement("kubernetes.io/arch", "In", "amd64"),
    requirement("karpenter.sh/capacity-type", "In", "on-demand"),
    requirement("karpenter.k8s.aws/instance-category", "In", "c", "m", "r"),
    requirement("karpenter.k8s.aws/instance-generation", "Gt", "2"),
]


def holds(*path: str, value: object) -> Check:
    """The NodePool has ``value`` at ``path`` of its spec, and nothing was refused."""

    def verify(conversion: Conversion) -> None:
        part: Any = the_object(conversion, "NodePool")["spec"]
        for key in path:
            part = part[key]
        assert value == part

    return verify


def holds_all(*checks: Check) -> Check:
    def verify(conversion: Conversion) -> None:
        for each in checks:
            each(conversion)

    return verify


def refused_at(*fields: str) -> Check:
    """Exactly these fields are complained about."""

    def verify(conversion: Conversion) -> None:
        assert sorted(fields) == sorted({error.field for error in all_errors(conversion)})

    return verify


def left_out(conversion: Conversion) -> None:
    assert all(result.skipped and not result.objects for result in conversion.results)
    assert all(result.warnings and not result.errors for result in conversion.results)


def is_converted(conversion: Conversion) -> None:
    assert all(result.objects and not result.errors for result in conversion.results)


def is_node_class_of_seed_2(conversion: Conversion) -> None:
    written = load("s002-ec2nodeclass.yaml")[0]

    expected = {**written, "apiVersion": "karpenter.k8s.aws/v1"}
    assert expected == the_object(conversion, "EC2NodeClass")


def keeps_kubelet_with_the_pool(conversion: Conversion) -> None:
    annotation = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
    assert annotation in the_object(conversion, "NodePool")["metadata"]["annotations"]
    assert "kubelet" not in node_of(conversion)


def drops_the_runtime(conversion: Conversion) -> None:
    warned = {str(warning.path[-1]) for r in conversion.results for warning in r.warnings}
    assert "containerRuntime" in warned


def has_class_with_kubelet(conversion: Conversion) -> None:
    kubelet = the_object(conversion, "EC2NodeClass")["spec"]["kubelet"]
    assert kubelet["maxPods"] == 20
    assert "containerRuntime" not in kubelet


def refers_to(name: str) -> Check:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}
    return holds("template", "spec", "nodeClassRef", value=reference)


def keeps_requirements_and_adds_os(conversion: Conversion) -> None:
    written = load("s001-provisioner-requirements.yaml")[0]["spec"]["requirements"]

    expected = [*written, requirement("kubernetes.io/os", "In", "linux")]
    assert expected == node_of(conversion)["requirements"]


def complains_of_group(conversion: Conversion) -> None:
    warned = [w for r in conversion.results for w in r.warnings if w.path == ("apiVersion",)]
    assert len(warned) == 1
    assert "compute.k8s.aws" in warned[0].message


def disruption(policy: str, wait: str, expiry: str) -> Check:
    return holds_all(
        holds("disruption", value={"consolidationPolicy": policy, "consolidateAfter": wait}),
        holds("template", "spec", "expireAfter", value=expiry),
    )


TAINT = {"key": "example.com/special-taint", "effect": "NoSchedule"}
STARTUP_TAINT = {"key": "example.com/another-taint", "effect": "NoSchedule"}
TEAM = {"billing-team": "my-team"}
OWNER = {"example.com/owner": "my-team"}
LIMITS = {"cpu": "1000", "memory": "1000Gi"}

# What the words of the index mean, file by file
V1: Mapping[str, Check] = {
    "s000-provisioner-default.yaml": refers_to("given"),
    "s001-provisioner-providerref.yaml": holds_all(
        refers_to("foo-template"), holds("template", "spec", "requirements", value=LATE_DEFAULTS)
    ),
    "s001-provisioner-taints.yaml": holds("template", "spec", "taints", value=[TAINT]),
    "s001-provisioner-startuptaints.yaml": holds(
        "template", "spec", "startupTaints", value=[STARTUP_TAINT]
    ),
    "s001-provisioner-labels.yaml": holds("template", "metadata", "labels", value=TEAM),
    "s001-provisioner-annotations.yaml": holds("template", "metadata", "annotations", value=OWNER),
    "s001-provisioner-requirements.yaml": keeps_requirements_and_adds_os,
    "s001-provisioner-kubeletconfiguration.yaml": holds_all(
        keeps_kubelet_with_the_pool, drops_the_runtime
    ),
    "s001-provisioner-limits.yaml": holds("limits", value=LIMITS),
    "s001-provisioner-consolidation.yaml": disruption("WhenEmptyOrUnderutilized", "0s", "Never"),
    "s001-provisioner-ttlsecondsuntilexpired.yaml": disruption("WhenEmpty", "Never", "2592000s"),
    "s001-provisioner-ttlsecondsafterempty.yaml": disruption("WhenEmpty", "30s", "Never"),
    "s001-provisioner-weight.yaml": holds("weight", value=10),
    "s001-awsnodetemplate-subnetselector.yaml": refused_at("spec.securityGroupSelector"),
    "s001-awsnodetemplate-tags.yaml": refused_at(
        "spec.subnetSelector", "spec.securityGroupSelector"
    ),
    "s001-combined.yaml": holds_all(
        is_converted, has_class_with_kubelet, drops_the_runtime, refers_to("foo-template")
    ),
    "bad-s001-combined-ttl-and-consolidation.yaml": refused_at("spec.ttlSecondsAfterEmpty"),
    "s002-nodepool-full.yaml": holds_all(
        disruption("WhenEmptyOrUnderutilized", "0s", "720h"), keeps_kubelet_with_the_pool
    ),
    "bad-s002-nodepool-full-semantics.yaml": refused_at("spec.limits.resources"),
    "s002-ec2nodeclass.yaml": is_node_class_of_seed_2,
    "bad-s002-ec2nodeclass.yaml": holds_all(
        refused_at(
            "metadata.name",
            "spec.amiSelectorTerms",
            "spec.securityGroupSelectorTerms",
            "spec.securityGroupSelectorTerms[0].id",
        ),
        complains_of_group,
    ),
    "s002-nodepool-notin-instancetype.yaml": is_converted,
    "s002-nodepool-gpu.yaml": is_converted,
    "s002-nodepool-default-team.yaml": is_converted,
    "s002-nodepool-ttl.yaml": refused_at("spec.template"),
    "s002-nodepool-limits.yaml": refused_at("spec.template"),
    "s003-provisioner-default.yaml": is_converted,
}


def test_every_seed_manifest_gives_what_the_index_says(entry: dict[str, Any]) -> None:
    entry = {**DEFAULTS, **entry}
    name = entry["file"]
    if entry["parse"] == "error":
        with pytest.raises(ManifestError, match=rf"^{name}:\d+"):
            load(name)
        return

    objects = load(name)
    conversion = convert_all(objects, OPTIONS)

    if entry["claimed"] != "n/a":
        # Where two generations of a schema differ, the project serves the last one.
        accepted = entry["claimed"] == "accept"
        assert accepted == all(not check(obj).errors for obj in objects)
    if name in NO_API_OBJECT:
        refused_at("apiVersion", "kind")(conversion)
    elif entry["v1"] == "n/a":
        left_out(conversion)
    else:
        V1[name](conversion)


def test_every_conversion_of_the_index_has_its_check(entry: dict[str, Any]) -> None:
    expects_conversion = {**DEFAULTS, **entry}["v1"] != "n/a"

    assert expects_conversion == (entry["file"] in V1)


def test_the_index_lists_every_fixture() -> None:
    if not INDEX.exists():
        pytest.skip(ABSENT)
    files = {file.name for file in SEEDS.glob("*.yaml")} - {"index.yaml"}

    assert files == {entry["file"] for entry in ENTRIES}
    assert len(files) == 46

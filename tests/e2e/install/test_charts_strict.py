"""A real API server takes what the chart renders, whatever is switched on."""

from collections.abc import Iterator
from typing import Final

import pytest
import yaml

import chart_values
from helpers.charted import Charted, charted_control_plane
from helpers.helm import CRDS, MAIN, Helm
from helpers.pairwise import pairwise

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl", "control_plane_programs")]

STRICTLY: Final = (
    *("apply", "--server-side", "--dry-run=server", "--validate=strict", "--warnings-as-errors"),
    *("-f", "-"),
)
KINDS_OF_OTHERS: Final = {
    "ServiceMonitor": "monitoring.coreos.com",
    "PrometheusRule": "monitoring.coreos.com",
    "Certificate": "cert-manager.io",
    "Issuer": "cert-manager.io",
}
OF_OTHERS: Final = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: KIND, plural: PLURAL}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


def switches() -> dict[str, tuple[object, ...]]:
    """The values that are on or off, and those that decide what else is rendered."""
    found: dict[str, tuple[object, ...]] = {
        value.name: (False, True)
        for value in chart_values.read(MAIN / "values.yaml")
        if "boolean" in value.schema.get("type", ())
    }
    return {**found, "settings.clusterName": ("", "demo"), "replicas": (1, 2)}


@pytest.fixture(scope="module")
def cluster(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Charted]:
    with charted_control_plane(tmp_path_factory.mktemp("strict"), helm) as running:
        for kind, group in KINDS_OF_OTHERS.items():
            facts = {"KIND": kind, "PLURAL": f"{kind.lower()}s", "GROUP": group}
            crd = OF_OTHERS
            for name, value in facts.items():
                crd = crd.replace(name, value)
            running("apply", "-f", "-", given=crd)
        running("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
        yield running


@pytest.mark.case("OPS-1")
@pytest.mark.row("S2-54")
def test_all_pairs_of_values_are_taken_without_a_warning(cluster: Charted) -> None:
    rows = pairwise(switches())
    assert len(switches()) > 25

    for row in rows:
        cluster(*STRICTLY, given=yaml.safe_dump_all(cluster.helm.template(row)))
    for legacy in (False, True):
        crds = cluster.helm.template({"legacyKinds": legacy}, chart=CRDS)
        cluster(*STRICTLY, given=yaml.safe_dump_all(crds))


@pytest.mark.case("OPS-16")
def test_a_restricted_namespace_admits_the_pods(cluster: Charted) -> None:
    cluster("create", "namespace", "restricted")
    for mode in ("enforce", "warn"):
        label = f"pod-security.kubernetes.io/{mode}=restricted"
        cluster("label", "namespace", "restricted", label)
    bare = ("run", "bare", "--image=pause", "-n", "restricted")
    with pytest.raises(AssertionError, match="violates PodSecurity"):
        cluster(*bare)

    cluster.helm(
        *("upgrade", "--install", "karpenter", MAIN, "--namespace", "restricted"),
        *("--wait", "--timeout", "120s"),
    )

    pods = cluster.items("pods", "-n", "restricted")
    assert 2 == len([pod for pod in pods if pod["metadata"]["namespace"] == "restricted"])

"""Writes the generated files of the charts.

- ``values.schema.json`` and ``README.md`` of each chart, from its ``values.yaml``;
- the schema of the chart's values for ``karpenter values``;
- the CRDs of both charts, as ``karpenter crds`` prints them;
- the alerts and dashboards of ``monitoring``;
- the versions in ``Chart.yaml``, which are that of the program;
- ``examples/install/**.yaml``, the roles for those who install without helm, as the chart renders them.

The last needs helm, on the path or built by ``make helm``. Run ``make charts`` to write; tests
compare the files with what would be written.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

import chart_values
from control_plane import build
from karpenter import __version__
from karpenter.admission.schemas.crds import builtin_crds, converted_by, stored_only
from karpenter.console import output

ROOT: Final = Path(__file__).resolve().parents[1]
CHARTS: Final = ROOT / "charts"
MAIN: Final = CHARTS / "karpenter"
CRDS: Final = CHARTS / "karpenter-crd"
MONITORING: Final = ROOT / "monitoring"
INSTALL: Final = ROOT / "examples" / "install"
_WRITTEN: Final = "Written by tools/charts.py"
_OWN_LABELS: Final = ("app.kubernetes.io/", "helm.sh/")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Roles:
    """A file of RBAC objects for one task of the controller."""

    heading: str
    names: tuple[str, ...]
    settings: tuple[str, ...] = ()  # the values with which the chart renders them
    kinds: tuple[str, ...] = ()  # further kinds to include besides roles


ROLES: Final[Mapping[str, Roles]] = {
    "rbac.yaml": Roles(
        """\
What the controller may do with default settings, and nothing more: one service account in kube-system,
one role for the whole cluster, one for the simulated provider, and one for the lease of the election.
What settings and feature gates need besides stands in optional/, one file each.

The verb "update" on finalizers is no write: where the admission plugin OwnerReferencesPermissionEnforcement
is on (as on OpenShift), who makes an object that its owner waits for must have it.""",
        ("karpenter-core", "karpenter", "karpenter-admin"),
    ),
    "rbac-aws.yaml": Roles(
        """\
What the AWS provider needs besides rbac.yaml: its node class, the address of the cluster's DNS, and the
range of service addresses that nodes are told when EKS is not asked. The role "karpenter" of rbac.yaml,
which lets the simulated provider create Nodes, is not needed on AWS:
  kubectl delete clusterrolebinding karpenter""",
        ("karpenter-aws", "karpenter-aws-dns", "karpenter-aws-admin"),
        ("settings.clusterName=any",),
    ),
    "rbac-viewer.yaml": Roles(
        """\
What `karpenter dashboard` may do beside any cluster: read the kinds that it shows, and nothing more. It has
no verb that writes, and no access to Secrets and ConfigMaps. Of leases it reads the one of the election, to
name the leader. Kinds that are taken out of it are named on the page; without pods, nodes, nodepools and
nodeclaims there is nothing to show.""",
        ("karpenter-dashboard",),
        ("dashboard.enabled=true",),
    ),
    "optional/capacity-buffer.yaml": Roles(
        """\
With the feature gate CapacityBuffer: buffers and the pod templates they name are read, and buffers are
told what they hold.""",
        ("karpenter-capacity-buffer",),
        ("settings.featureGates.capacityBuffer=true",),
    ),
    "optional/commitment.yaml": Roles(
        "With the feature gate Commitments: commitments are read, and told how much of them is used.",
        ("karpenter-commitment",),
        ("settings.featureGates.commitments=true",),
    ),
    "optional/dashboard-kinds.yaml": Roles(
        """\
With DASHBOARD_PORT: what the page of the controller shows besides what the controllers read, such as
events; nothing is written. A kind that is taken out of it is named on the page.""",
        ("karpenter-dashboard-kinds",),
        ("controller.dashboard.enabled=true",),
    ),
    "optional/devices.yaml": Roles(
        "With IGNORE_DRA_REQUESTS=false: devices that pods ask for are looked at.",
        ("karpenter-devices",),
        ("settings.ignoreDRARequests=false",),
    ),
    "optional/early-binding.yaml": Roles(
        "With EARLY_BINDING=true: pods are put on their nodes before these are ready.",
        ("karpenter-early-binding",),
        ("rbac.earlyBinding=true",),
    ),
    "optional/legacy-kinds-aws.yaml": Roles(
        """\
To honour AWSNodeTemplates and the provider blocks of Provisioners on AWS, besides legacy-kinds.yaml and
rbac-aws.yaml.""",
        ("karpenter-aws-legacy-kinds",),
        ("rbac.legacyKinds=true", "settings.clusterName=any"),
    ),
    "optional/legacy-kinds.yaml": Roles(
        """\
To honour Provisioners and AWSNodeTemplates: what they stand for is made, kept as it should be and
removed with them, and they are told whether it works. On AWS legacy-kinds-aws.yaml is needed too.""",
        ("karpenter-legacy-kinds",),
        ("rbac.legacyKinds=true",),
    ),
    "optional/node-overlay.yaml": Roles(
        "With the feature gate NodeOverlay: overlays are read, and told whether they are valid.",
        ("karpenter-node-overlay",),
        ("settings.featureGates.nodeOverlay=true",),
    ),
    "optional/node-repair-kwok.yaml": Roles(
        """\
With the feature gate NodeRepair and the simulated provider: its machines are restarted, which their
Nodes then say.""",
        ("karpenter-node-repair-kwok",),
        ("settings.featureGates.nodeRepair=true",),
    ),
    "optional/pod-deletion-cost.yaml": Roles(
        "With the feature gate PodDeletionCostManagement: pods are told which of them to give up first.",
        ("karpenter-pod-deletion-cost",),
        ("settings.featureGates.podDeletionCostManagement=true",),
    ),
    "optional/spot-history.yaml": Roles(
        "With SPOT_INTERRUPTION_COST: interruptions of spot are counted, and kept in one ConfigMap.",
        ("karpenter-spot-history",),
        ("settings.spotInterruptionCost=1",),
    ),
    "optional/webhook.yaml": Roles(
        """\
With WEBHOOK_PORT=8443: a Service that leads the API server to the webhook, a Secret without data for its
certificates, and the rights to fill that one Secret and to have the webhook trusted, all by name. The right to
create the Secret is for one that was deleted; a request that does not name its object is not allowed by it.
The page docs/webhooks.md says when and how.""",
        (
            "karpenter-webhook",
            "karpenter-webhook-cert",
            "defaulting.webhook.karpenter.sh",
            "validation.webhook.karpenter.sh",
        ),
        ("webhook.enabled=true",),
        (
            "Secret",
            "Service",
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
        ),
    ),
}
_REMARKS: Final = {
    ("ClusterRole", "karpenter"): (
        "Of the simulated provider: its node class, which it annotates with what can be bought, and the Nodes that\n"
        "stand for its machines."
    ),
    ("ClusterRole", "karpenter-admin"): (
        "Not the controller's: whoever is an admin of the cluster may manage pools and claims."
    ),
    ("ClusterRole", "karpenter-aws-admin"): (
        "Not the controller's: whoever is an admin of the cluster may manage node classes."
    ),
}
_INTRODUCTIONS: Final = {
    MAIN: """\
# The chart karpenter

The controller, with its roles, service, PodDisruptionBudget and what else it needs in a cluster.
[In a cluster](../../docs/install.md) says how to install it; [karpenter-crd](../karpenter-crd) comes first.

```
helm upgrade --install karpenter charts/karpenter --namespace kube-system --values values.yaml
```

A value that does not exist, or has the wrong type, is refused with its name. False is a value: `false` reaches the
controller, and a feature gate that is not set is left to the program's default.
""",
    CRDS: """\
# The chart karpenter-crd

The CRDs, as templates: helm upgrades them together with the release, which it does not do with the folder `crds` of the
chart [karpenter](../karpenter). Uninstalling leaves them, and every object with them.
[In a cluster](../../docs/install.md) says how to install it, and how CRDs that are there already are taken over.
""",
}


def texts() -> Iterator[tuple[Path, str]]:
    """Every file that needs no helm, with what is in it."""
    for chart, introduction in _INTRODUCTIONS.items():
        values = chart_values.read(chart / "values.yaml")
        yield chart / "values.schema.json", chart_values.schema(values)
        readme = (
            f"<!-- {_WRITTEN} from values.yaml -->\n{introduction}\n{chart_values.table(values)}"
        )
        yield chart / "README.md", readme
        about = (chart / "Chart.yaml").read_text("utf-8")
        yield (
            chart / "Chart.yaml",
            re.sub(r"^(version|appVersion): .*$", rf"\1: {__version__}", about, flags=re.MULTILINE),
        )
    schema = chart_values.schema(chart_values.read(MAIN / "values.yaml"))
    yield ROOT / "src" / "karpenter" / "cli" / "values.schema.json", schema
    yield MAIN / "files" / "rules.yaml", (MONITORING / "rules.yaml").read_text("utf-8")
    for dashboard in sorted((MONITORING / "dashboards").glob("*.json")):
        yield MAIN / "files" / "dashboards" / dashboard.name, dashboard.read_text("utf-8")
    current = builtin_crds(legacy=False)
    for name, definition in sorted(builtin_crds(legacy=True).items()):
        text = f"# {_WRITTEN}\n{output.render([stored_only(definition)], 'yaml')}"
        file = f"{name}.yaml"
        if name in current:
            yield MAIN / "crds" / file, text
            yield CRDS / "files" / file, text
        else:
            yield CRDS / "files" / "legacy" / file, text
        if len(definition["spec"]["versions"]) > 1:
            # Placeholders: the chart replaces them by namespace and name of its Service
            converted = converted_by(definition, "kube-system", "karpenter-webhook")
            webhook = f"# {_WRITTEN}\n{output.render([converted], 'yaml')}"
            yield CRDS / "files" / "webhook" / file, webhook


def install_texts(helm: Path) -> Iterator[tuple[Path, str]]:
    """Every file of roles, with what is in it."""
    for file, roles in ROLES.items():
        rendered = render(helm, MAIN, *roles.settings)
        yield INSTALL / file, _roles_text(roles, rendered)


def find_helm() -> Path | None:
    """The helm that tests use, else the one on the path."""
    built = build.find(build.HELM.name)
    on_path = shutil.which("helm")
    return built or (Path(on_path) if on_path else None)


def render(helm: Path, chart: Path, *settings: str) -> list[Json]:
    """The objects of a chart with settings such as ``replicas=1``.

    Raises:
        SystemExit: helm refuses.
    """
    flags = [part for setting in settings for part in ("--set", setting)]
    command = [str(helm), "template", "karpenter", str(chart), "--namespace", "kube-system", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(done.stderr)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def _roles_text(roles: Roles, rendered: list[Json]) -> str:
    wanted = [
        _plain(each)
        for name in roles.names
        for each in sorted(rendered, key=_order)
        if each["metadata"]["name"] == name
        and (_is_about_rights(each) or each["kind"] in roles.kinds)
    ]
    accounts = [
        _plain(each)
        for each in rendered
        if each["kind"] == "ServiceAccount" and each["metadata"]["name"] in roles.names
    ]
    documents = [*accounts, *wanted]
    heading = "".join(f"# {line}".rstrip() + "\n" for line in roles.heading.splitlines())
    return f"{heading}# {_WRITTEN} from charts/karpenter.\n" + "---\n".join(
        map(_document_text, documents)
    )


def _document_text(document: Json) -> str:
    remark = _REMARKS.get((document["kind"], document["metadata"]["name"]), "")
    comment = "".join(f"# {line}\n" for line in remark.splitlines())
    text = yaml.safe_dump(document, default_flow_style=None, sort_keys=False, width=120)
    return comment + text.replace("'", '"')


def _is_about_rights(document: Json) -> bool:
    return str(document["apiVersion"]).startswith("rbac.authorization.k8s.io/")


def _order(document: Json) -> int:
    kinds = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    return kinds.index(document["kind"]) if document["kind"] in kinds else len(kinds)


def _plain(document: Json) -> Json:
    """An object without what only helm needs."""
    metadata = dict(document["metadata"])
    labels = {
        name: value
        for name, value in metadata.pop("labels", {}).items()
        if not name.startswith(_OWN_LABELS)
    }
    if labels:
        metadata["labels"] = labels
    plain = {**document, "metadata": metadata}
    # Set by the chart, whose pods mount the token explicitly; other installations may rely on it
    plain.pop("automountServiceAccountToken", None)
    return plain


def main() -> int:
    """Write the files."""
    helm = find_helm()
    if helm is None:
        print(
            "error: there is no helm to render roles with; build it with make helm", file=sys.stderr
        )
        return 1
    for path, text in texts():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    for path, text in install_texts(helm):
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

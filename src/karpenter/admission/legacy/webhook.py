"""The legacy admission webhook for the alpha kinds: its defaults and its validation.

Its rules are in ``provisioner`` and ``node_template``; this module is the entry point, and has the
requirements it appended to a Provisioner.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from karpenter.admission.constraints import collect, object_at, objects_at
from karpenter.admission.errors import Findings
from karpenter.admission.legacy.node_template import template_errors
from karpenter.admission.legacy.provisioner import provisioner_findings
from karpenter.api.node_classes import ec2_labels
from karpenter.model import labels

Profile: TypeAlias = Literal["early", "late"]

PROVISIONER: Final = ("karpenter.sh/v1alpha5", "Provisioner")
AWS_NODE_TEMPLATE: Final = ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate")

_Default: TypeAlias = tuple[str, str, tuple[str, ...]]  # key, operator, values

_OS: Final[_Default] = (labels.OS, "In", ("linux",))
_ARCH: Final[_Default] = (labels.ARCH, "In", ("amd64",))
_CAPACITY_TYPE: Final[_Default] = (labels.CAPACITY_TYPE, "In", (labels.ON_DEMAND,))
_ALWAYS: Final = {
    "early": (_ARCH, _CAPACITY_TYPE),
    "late": (_OS, _ARCH, _CAPACITY_TYPE),
}
_INSTANCE_CHOICE: Final[tuple[_Default, ...]] = (  # the late webhook excluded small and old types
    (ec2_labels.INSTANCE_CATEGORY, "In", ("c", "m", "r")),
    (ec2_labels.INSTANCE_GENERATION, "Gt", ("2",)),
)
_CHOOSES_INSTANCES: Final = frozenset(
    {
        labels.INSTANCE_TYPE,
        ec2_labels.INSTANCE_FAMILY,
        ec2_labels.INSTANCE_CATEGORY,
        ec2_labels.INSTANCE_GENERATION,
    }
)


def default_legacy(
    obj: Mapping[str, Any], profile: Profile = "late", *, provider: str = "aws"
) -> dict[str, Any]:
    """Return the object as the webhook would have stored it; the given one is not changed.

    ``early`` is the webhook of the first v1alpha5 releases, ``late`` that of the last ones. A key
    counts as constrained when a requirement or a label of the Provisioner names it.
    """
    spec = obj.get("spec")
    if _identity(obj) != PROVISIONER or not isinstance(spec, Mapping):
        return dict(obj)
    written = spec.get("requirements")
    if written is not None and not isinstance(written, list):
        return dict(obj)
    added = list(_defaults(_constrained_keys(spec), profile, provider))
    return {**obj, "spec": {**spec, "requirements": [*(written or []), *added]}}


def with_default_class(obj: Mapping[str, Any], provider: str) -> dict[str, Any]:
    """Give a Provisioner without a class the default one, on clouds other than AWS.

    On AWS, settings of the controller replace the class; other clouds have a default node class.
    """
    spec = obj.get("spec")
    if provider == "aws" or _identity(obj) != PROVISIONER or not isinstance(spec, Mapping):
        return dict(obj)
    if spec.get("provider") is not None or spec.get("providerRef") is not None:
        return dict(obj)
    return {**obj, "spec": {**spec, "providerRef": {"name": "default"}}}


def legacy_findings(obj: Mapping[str, Any], *, provider: str = "aws") -> Findings:
    """Check a Provisioner or an AWSNodeTemplate; other kinds have no findings."""
    spec = object_at(obj, "spec")
    identity = _identity(obj)
    if identity == PROVISIONER:
        return collect(provisioner_findings(spec, provider=provider))
    if identity == AWS_NODE_TEMPLATE:
        return Findings(errors=template_errors(spec, ("spec",)))
    return Findings()


def _identity(obj: Mapping[str, Any]) -> tuple[str, str]:
    return str(obj.get("apiVersion")), str(obj.get("kind"))


def _constrained_keys(spec: Mapping[str, Any]) -> set[str]:
    keys = [requirement.get("key") for _, requirement in objects_at(spec, "requirements")]
    keys.extend(object_at(spec, "labels"))
    return {labels.normalise(key) for key in keys if isinstance(key, str)}


def _defaults(constrained: set[str], profile: Profile, provider: str) -> Iterator[dict[str, Any]]:
    added = [default for default in _ALWAYS[profile] if default[0] not in constrained]
    if profile == "late" and provider == "aws" and not constrained & _CHOOSES_INSTANCES:
        added.extend(_INSTANCE_CHOICE)
    for key, operator, values in added:
        yield {"key": key, "operator": operator, "values": list(values)}

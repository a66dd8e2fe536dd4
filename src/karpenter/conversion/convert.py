"""Conversion of any mixture of manifests to v1, validated by the rules of v1.

Every input has one result at the same position: the objects it was converted to, or its errors,
with paths of the input. No defaults are filled in beyond what conversion must add.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from karpenter.admission.check import Checked, check
from karpenter.admission.errors import FieldError, FieldWarning, Path, distinct, is_below
from karpenter.admission.metadata import metadata_errors
from karpenter.admission.schemas.engine import builtin
from karpenter.api.codec import is_known
from karpenter.api.meta import JsonObject
from karpenter.conversion import v1beta1
from karpenter.conversion.catalogue import Route
from karpenter.conversion.draft import Origins, led_back, warning_led_back
from karpenter.conversion.family import Family, Options, Produced, report_kept_kubelet
from karpenter.conversion.intake import Item, take_in
from karpenter.conversion.provisioner import KUBELET
from karpenter.conversion.structure import concerns
from karpenter.conversion.v1beta1_ec2 import image_warnings
from karpenter.conversion.values import kept_metadata, section

__all__ = ["Conversion", "Options", "Result", "convert_all"]

_CLASS_KUBELET: Final[Path] = ("spec", "kubelet")
_TEMPLATE: Final = ("spec", "template", "spec")
_NAME: Final[Path] = ("metadata", "name")
_FROM_PROVISIONER: Final = Origins.moved({_CLASS_KUBELET: KUBELET})


@dataclass(frozen=True, slots=True)
class Result:
    """The result for one input; with errors there are no objects."""

    objects: list[JsonObject] = field(default_factory=list)
    skipped: bool = False
    errors: list[FieldError] = field(default_factory=list)
    warnings: list[FieldWarning] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Conversion:
    """The results of a conversion, in the order of the input."""

    results: list[Result]

    @property
    def has_errors(self) -> bool:
        """Whether any input could not be converted."""
        return any(result.errors for result in self.results)


_NO_OPTIONS: Final = Options()


def convert_all(items: Sequence[Mapping[str, Any]], options: Options = _NO_OPTIONS) -> Conversion:
    """Convert manifests together, since they may refer to each other."""
    taken = [take_in(index, obj) for index, obj in enumerate(items)]
    produced = _produced(taken, options)
    for one in produced:
        _judge(one)
    return Conversion([_result(item, produced) for item in taken])


def _produced(items: Sequence[Item], options: Options) -> list[Produced]:
    family = Family(options)
    produced: list[Produced] = []
    for item in items:
        made = _made_alone(item, family)
        if item.kind == v1beta1.NODE_CLASS_KIND and made:
            family.add_class(item, made)
        produced.extend(made)
    family.pool_references = {
        str(section(one.object, *_TEMPLATE, "nodeClassRef").get("name"))
        for one in produced
        if one.item.kind == "NodePool"
    }
    produced.extend(family.provision(i for i in items if i.route is Route.PROVISIONER))
    expiries = _expiries(produced)
    produced.extend(
        _lifted(item, expiries.get)
        for item in items
        if item.route is Route.V1BETA1 and item.kind == "NodeClaim"
    )
    return produced


def _made_alone(item: Item, family: Family) -> list[Produced]:
    """Convert an item whose conversion depends on no other object."""
    match item.route:
        case Route.CURRENT:
            return [_current(item)]
        case Route.V1BETA1 if item.kind != "NodeClaim":
            return [_lifted(item)]
        case Route.NODE_TEMPLATE:
            return family.add_template(item)
        case Route.OTHER if not item.is_skipped:
            return [Produced(item, item.object, item.steps)]
        case _:
            return []


def _current(item: Item) -> Produced:
    version = builtin(item.object["apiVersion"], item.kind)
    namespaced = version is not None and version.scope == "Namespaced"
    return Produced(item, _manifest(item.object, namespaced=namespaced), item.steps)


def _lifted(item: Item, pool_expiry: v1beta1.PoolExpiry = lambda _: None) -> Produced:
    lifted = v1beta1.up(_manifest(item.object), pool_expiry)
    item.remark(_beta_warnings(item.object))
    if item.kind == v1beta1.NODE_CLASS_KIND:
        if ("spec", "amiSelectorTerms") not in item.cut:
            item.remark(image_warnings(lifted))
    else:
        node = _TEMPLATE if item.kind == "NodePool" else ("spec",)
        kubelet = section(item.object, *node).get("kubelet")
        if isinstance(kubelet, Mapping):
            report_kept_kubelet(item, kubelet, (*node, "kubelet"))
    return Produced(item, lifted, (v1beta1.origins_of(item.object), *item.steps))


def _manifest(obj: JsonObject, *, namespaced: bool = False) -> JsonObject:
    if not isinstance(obj.get("metadata"), Mapping):
        return obj
    return {**obj, "metadata": kept_metadata(obj, namespaced=namespaced)}


def _beta_warnings(obj: JsonObject) -> Iterable[FieldWarning]:
    """Warn about fields of a NodePool whose meaning differs in v1."""
    if section(obj, *_TEMPLATE, "resources"):
        why = "was dropped: a NodePool asks for no resources of its own"
        yield FieldWarning((*_TEMPLATE, "resources"), why)
    disruption = section(obj, "spec", "disruption")
    if disruption.get("consolidationPolicy") == "WhenEmpty" and not disruption.get(
        "consolidateAfter"
    ):
        why = "consolidateAfter is not set, so empty nodes are removed at once"
        yield FieldWarning(("spec", "disruption", "consolidationPolicy"), why)


def _expiries(produced: Iterable[Produced]) -> dict[str, str]:
    """Return the ``expireAfter`` of each NodePool that states one."""
    expiries = {}
    for one in produced:
        expiry = section(one.object, *_TEMPLATE).get("expireAfter")
        if one.object["kind"] == "NodePool" and isinstance(expiry, str):
            expiries[str(section(one.object, "metadata").get("name"))] = expiry
    return expiries


def _judge(produced: Produced) -> None:
    """Check a produced object and report at the input field that caused the error."""
    checked = _checked(produced)
    for error in checked.errors:
        item, steps = _author(error.path, produced)
        written = led_back(error, steps)
        if _is_judged(error.path, produced) and not concerns(written.path, item.cut):
            item.errors.append(written)
    for warning in checked.warnings:
        item, steps = _author(warning.path, produced)
        if _is_judged(warning.path, produced):
            item.warnings.append(warning_led_back(warning, steps))


def _checked(produced: Produced) -> Checked:
    obj = produced.object
    if produced.item.route is Route.OTHER and not is_known(obj["apiVersion"], obj["kind"]):
        return Checked(obj, metadata_errors(obj))
    return check(obj)


def _author(path: Path, produced: Produced) -> tuple[Item, Sequence[Origins]]:
    provisioner = produced.kubelet_from
    if provisioner is not None and is_below(path, _CLASS_KUBELET):
        return provisioner, (_FROM_PROVISIONER, *provisioner.steps)
    return produced.item, produced.steps


def _is_judged(path: Path, produced: Produced) -> bool:
    return not produced.is_copy or path == _NAME or is_below(path, _CLASS_KUBELET)


def _result(item: Item, produced: Iterable[Produced]) -> Result:
    errors = distinct(item.errors)
    objects = [] if errors else [one.object for one in produced if one.item is item]
    return Result(objects, item.is_skipped, errors, list(dict.fromkeys(item.warnings)))

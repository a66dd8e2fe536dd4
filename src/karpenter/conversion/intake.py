"""Reading one object: its kind and version, its well-typed part, and that part in current keys."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from karpenter.admission.errors import ErrorKind, FieldError, FieldWarning, Path
from karpenter.admission.legacy.webhook import AWS_NODE_TEMPLATE
from karpenter.admission.schemas.engine import builtin
from karpenter.api.meta import JsonObject
from karpenter.conversion.catalogue import Route, claim_of, corrected_reference
from karpenter.conversion.draft import Origins, trace
from karpenter.conversion.keys import Renamed, rename_keys
from karpenter.conversion.structure import Reading, concerns, read, unreadable
from karpenter.conversion.values import edited, section, without

_PROVIDER: Final[Path] = ("spec", "provider")


@dataclass(slots=True)
class Item:
    """One input object during conversion; findings are in paths of the input."""

    index: int
    route: Route
    object: JsonObject
    steps: tuple[Origins, ...] = ()  # from ``object`` back to the input, the last step first
    cut: list[Path] = field(default_factory=list)
    errors: list[FieldError] = field(default_factory=list)
    warnings: list[FieldWarning] = field(default_factory=list)
    is_skipped: bool = False

    @property
    def kind(self) -> str:
        """The kind of the object, which is text for every route but a refusal."""
        return str(self.object.get("kind"))

    @property
    def name(self) -> str:
        """The name of the object, empty where it has none."""
        name = section(self.object, "metadata").get("name")
        return name if isinstance(name, str) else ""

    def written(self, path: Path) -> Path:
        """Map a path of ``object`` back to the input."""
        return trace(path, self.steps).path

    def blame(self, errors: Iterable[FieldError]) -> None:
        """Report errors found in ``object``, unless a part they are about was cut out."""
        for error in errors:
            written = self.written(error.path)
            if not concerns(written, self.cut):
                self.errors.append(replace(error, path=written))

    def remark(self, warnings: Iterable[FieldWarning]) -> None:
        """Report warnings about ``object``."""
        self.warnings.extend(replace(w, path=self.written(w.path)) for w in warnings)


def take_in(index: int, obj: object) -> Item:
    """Read one object and determine its route."""
    problem = unreadable(obj)
    if problem is not None:
        return Item(index, Route.REFUSED, {}, errors=[problem])
    claim = claim_of(obj)
    item = Item(
        index, claim.route, claim.object, errors=[*claim.errors], warnings=[*claim.warnings]
    )
    match claim.route:
        case Route.REFUSED:
            pass
        case Route.LEFT_OUT:
            item.is_skipped = True
        case Route.OTHER:
            _rewrite(item)
        case _:
            _read(item)
            _rename(item)
    return item


def _rewrite(item: Item) -> None:
    """Rename the keys of an object of another API; an object without renamed keys is ignored."""
    if not _rename(item).changes:
        item.is_skipped = True
        why = f"{item.kind} is not a Karpenter object and carries no renamed key: left out"
        item.warnings.append(FieldWarning(("kind",), why))


def _rename(item: Item) -> Renamed:
    renamed = rename_keys(item.object)
    item.remark(renamed.warnings)
    item.object = renamed.object
    item.steps = (renamed.origins, *item.steps)
    return renamed


def _read(item: Item) -> None:
    version = builtin(item.object["apiVersion"], item.kind)
    assert version is not None, "the catalogue lists kinds with a CRD only"
    reading = read(without(item.object, "status"), version)
    item.object = reading.object
    item.steps = (reading.origins,)
    item.cut.extend(reading.cut)
    item.errors.extend(reading.errors)
    item.warnings.extend(reading.warnings)
    if item.route is Route.V1BETA1:
        item.object, warnings = corrected_reference(item.object)
        item.remark(warnings)
    provider = section(item.object, "spec").get("provider")
    if item.route is Route.PROVISIONER and isinstance(provider, Mapping):
        _read_provider(item, provider)


def _read_provider(item: Item, provider: Mapping[str, Any]) -> None:
    """Read the inline provider by the schema of the template it stands for.

    The webhook decoded it strictly, so an unknown field is an error here.
    """
    version = builtin(*AWS_NODE_TEMPLATE)
    assert version is not None, "the AWSNodeTemplate has a CRD"
    fields = without(provider, "apiVersion", "kind")
    api_version, kind = AWS_NODE_TEMPLATE
    wrapped = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": fields}
    reading = read(wrapped, version)
    own = {key: provider[key] for key in ("apiVersion", "kind") if key in provider}
    known = {**own, **section(reading.object, "spec")}
    item.object = edited(item.object, _PROVIDER, lambda _: known)
    item.blame(replace(error, path=_below(error.path)) for error in reading.errors)
    item.blame(
        FieldError(ErrorKind.NOT_SUPPORTED, _below(warning.path), warning.message)
        for warning in reading.warnings
    )
    item.cut.extend(item.written(_below(error.path)) for error in reading.errors)
    item.steps = (_below_provider(reading), *item.steps)


def _below_provider(reading: Reading) -> Origins:
    return Origins.moved(
        {_below(path): _below(origin.path) for path, origin in reading.origins.entries.items()}
    )


def _below(path: Path) -> Path:
    """Map a path of the template's spec to the inline provider."""
    return (*_PROVIDER, *path[1:])

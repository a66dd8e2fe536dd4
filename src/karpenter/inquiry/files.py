"""Manifests to a cluster: read, checked, converted where they are old, and filled in.

All of it or nothing: with any problem, every one is listed with its file and line and the command
ends. Kinds that no plan depends on are ignored with a warning.
"""

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from karpenter.admission.check import Checked, check
from karpenter.admission.errors import ErrorKind, FieldError, FieldWarning, is_below
from karpenter.admission.metadata import metadata_errors
from karpenter.admission.quantities import quantity_errors
from karpenter.admission.schemas.engine import builtin
from karpenter.api.codec import KINDS, convert, convert_as, is_known
from karpenter.api.meta import Resource, group_of, kind_of
from karpenter.api.node_classes import node_class_model
from karpenter.api.policy import PodDisruptionBudget
from karpenter.api.problems import DecodeError
from karpenter.console import manifest_files, output
from karpenter.console.manifest_files import Finding
from karpenter.console.screen import sample
from karpenter.conversion.catalogue import Route, claim_of
from karpenter.conversion.keys import rename_keys
from karpenter.inquiry.core_kinds import CoreKinds
from karpenter.inquiry.overlay import Overlay, overlaid
from karpenter.inquiry.runtime_classes import (
    as_admitted,
    is_runtime_class,
    overhead_errors,
    runtime_classes,
)
from karpenter.inquiry.snapshots import snapshot_of_files
from karpenter.inquiry.valid_objects import ValidObjects
from karpenter.manifests.errors import ManifestError
from karpenter.manifests.files import STANDARD_INPUT, Loaded
from karpenter.manifests.reader import Document, read
from karpenter.state.expansion import InputProblem, expand
from karpenter.state.object_keys import key_of
from karpenter.state.snapshot import Snapshot

_DEFAULT_CLASS: Final = "default"
# Kinds of Kubernetes that are read and checked, but lead to no node
_OTHERS: Final = "no plan depends on this kind"
_WITHOUT_EFFECT: Final = {
    "CronJob": "its Jobs are made when their time comes, and no plan knows which",
    "ConfigMap": _OTHERS,
    "Event": _OTHERS,
    "Lease": _OTHERS,
}
_HOMES: Final = frozenset((group_of(r), kind_of(r)) for r in KINDS)
_STATUS: Final = ("status",)
_REFERENCES: Final[Mapping[tuple[object, object], tuple[str, ...]]] = {
    ("karpenter.sh/v1", "NodePool"): ("spec", "template", "spec", "nodeClassRef"),
    ("karpenter.sh/v1", "NodeClaim"): ("spec", "nodeClassRef"),
}
_OLD: Final = frozenset({Route.V1BETA1, Route.PROVISIONER, Route.NODE_TEMPLATE})


@dataclass(slots=True)
class _Entry:
    """One object of the input while it is checked and converted, with its findings."""

    document: Document
    route: Route
    objects: list[dict[str, Any]] = field(default_factory=list)  # converted to v1
    resource: Resource | None = None  # instead of ``objects`` where ``ValidObjects`` accepted it
    errors: list[FieldError] = field(default_factory=list)
    warnings: list[FieldWarning] = field(default_factory=list)
    is_passed_over: bool = False
    is_foreign_class: bool = False  # a node class of a provider that is not of this project


@dataclass(frozen=True, slots=True)
class Change:
    """Objects of manifests to lay over a cluster, and where they stand."""

    objects: list[Resource]
    documents: list[Document]

    def over(self, base: Sequence[Resource]) -> Overlay:
        """Lay them over the objects of a cluster, or list what is wrong and end the command."""
        found = overlaid(base, self.objects)
        _refuse(self.findings(found.problems))
        return found

    def findings(self, problems: Iterable[InputProblem]) -> list[Finding]:
        """Problems of these objects, with where they stand."""
        return [_located(problem, self.documents) for problem in problems]


@dataclass(frozen=True, slots=True)
class FileCluster:
    """The objects that manifests stand for, before anything is settled about them."""

    objects: tuple[Resource, ...] = ()
    unjudged: frozenset[str] = frozenset()  # disruption budgets that came without a status


def load_cluster(
    names: Sequence[str], *, recursive: bool, provider: str, change: Change | None = None
) -> tuple[Snapshot, Snapshot | None]:
    """Return the cluster that manifests stand for, and the same with a change.

    With anything wrong, list it and end the command.
    """
    with _without_collection():
        found = load_objects(names, recursive=recursive, provider=provider)
        before = snapshot_of_files(found.objects, found.unjudged)
        if change is None:
            return before, None
        after = change.over(found.objects)
        return before, snapshot_of_files(after.objects, found.unjudged | after.budgets)


def load_objects(
    names: Sequence[str], *, recursive: bool, provider: str, is_quiet: bool = False
) -> FileCluster:
    """Return the objects that manifests stand for, or list what is wrong and end the command.

    Args:
        names: files and folders.
        recursive: whether subfolders are read.
        provider: whose rules pools are judged by.
        is_quiet: say nothing but errors, as the same files were read before.
    """
    with _without_collection():
        found = load_change(names, recursive=recursive, provider=provider, is_quiet=is_quiet)
        expansion = expand(found.objects)
        _refuse(found.findings(expansion.problems))
    unjudged = frozenset(
        key_of(resource)
        for document, resource in zip(found.documents, found.objects, strict=True)
        if isinstance(resource, PodDisruptionBudget) and not document.data.get("status")
    )
    return FileCluster(expansion.objects, unjudged)


def load_change(
    names: Sequence[str], *, recursive: bool, provider: str, is_quiet: bool = False
) -> Change:
    """Return the objects of manifests, or list what is wrong with them and end the command."""
    with output.progress("reading"), _without_collection():
        sound = ValidObjects()
        loaded = manifest_files.load_documents(names, recursive=recursive, maker=sound)
        change, found = _judged(loaded, provider, sound)
    for each in found:
        if each.is_error or not is_quiet:
            each.say()
    errors = sum(each.is_error for each in found)
    if errors:
        output.fail(f"nothing is planned: {manifest_files.problems(errors)}")
    if not loaded.documents and not is_quiet:
        named = ["standard input" if name == STANDARD_INPUT else name for name in names]
        output.note(f"note: there is no object in {sample(named, most=3)}")
    return change


def read_change(data: bytes, name: str, *, provider: str) -> tuple[Change, list[Finding]]:
    """Return the objects of manifests that are no file, and what ``plan`` would print about them.

    With an error among the findings the objects are not complete, and nothing is to be planned.
    """
    sound = ValidObjects()
    loaded = Loaded()
    try:
        loaded.documents.extend(read(data, name, sound))
    except ManifestError as error:
        loaded.errors.append(error)
    return _judged(loaded, provider, sound)


def _judged(loaded: Loaded, provider: str, sound: ValidObjects) -> tuple[Change, list[Finding]]:
    """Check and convert what was read; return it with every finding in the order of the input."""
    taken = _taken_in_all(loaded.documents, sound)
    entries = [each for each in taken if isinstance(each, _Entry)]
    _convert_old(entries)
    _take_foreign_classes(entries)
    _add_runtimes(entries)
    core = CoreKinds()
    for entry in entries:
        _judge(entry, provider, core)
    change = _change(loaded.documents, taken)
    return change, [*_findings(loaded, entries)]


def _change(documents: Iterable[Document], taken: Iterable[Resource | _Entry]) -> Change:
    change = Change([], [])
    for document, each in zip(documents, taken, strict=True):
        resources = _decoded(each) if isinstance(each, _Entry) else (each,)
        for resource in resources:
            change.objects.append(resource)
            change.documents.append(document)
    return change


@contextmanager
def _without_collection() -> Iterator[None]:
    """Disable the garbage collector: it would scan objects repeatedly that all stay alive."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _refuse(found: Sequence[Finding]) -> None:
    """End the command where anything was found."""
    for each in found:
        each.say()
    if found:
        output.fail(f"nothing is planned: {manifest_files.problems(len(found))}")


def _taken_in_all(documents: Sequence[Document], sound: ValidObjects) -> list[Resource | _Entry]:
    """Take in objects: as they are if ``ValidObjects`` accepts them, else as entries to check.

    Old kinds and RuntimeClasses change other objects, so with one of them all become entries.
    """
    kinds = {(str(document.api_version), str(document.kind)) for document in documents}
    heads = [{"apiVersion": api_version, "kind": kind} for api_version, kind in kinds]
    if any(claim_of(head).route in _OLD or is_runtime_class(head) for head in heads):
        return [_taken_in(document) for document in documents]
    taken: list[Resource | _Entry] = []
    for document in documents:
        resource = sound.resource(document)
        if resource is None:
            taken.append(_taken_in(document))
        elif _is_without_effect(document):
            taken.append(_Entry(document, Route.OTHER, resource=resource))
        else:
            taken.append(resource)
    return taken


def _taken_in(document: Document) -> _Entry:
    claim = claim_of(document.data)
    entry = _Entry(document, claim.route, errors=[*claim.errors], warnings=[*claim.warnings])
    match claim.route:
        case Route.LEFT_OUT | Route.REFUSED:
            pass
        case Route.OTHER if is_runtime_class(claim.object):
            entry.errors += overhead_errors(claim.object)
        case Route.OTHER if _is_of_no_concern(claim.object["apiVersion"], claim.object["kind"]):
            entry.is_passed_over = True
        case _:
            entry.objects = [claim.object]
    return entry


def _is_of_no_concern(api_version: str, kind: str) -> bool:
    """Whether a kind is of an unrelated API; a known kind in an unknown version is a mistake."""
    home = (api_version.rpartition("/")[0], kind)
    return not is_known(api_version, kind) and home not in _HOMES


def _convert_old(entries: Sequence[_Entry]) -> None:
    """Convert old kinds; where there are any, other objects may carry old keys as well."""
    old = [entry for entry in entries if entry.route in _OLD]
    if not old:
        return
    from karpenter.conversion.convert import Options, convert_all

    # No plan depends on the role of nodes; any value suppresses the warning that it is missing
    options = Options(node_role="any", default_node_class=_DEFAULT_CLASS)
    results = convert_all([entry.document.data for entry in old], options).results
    for entry, result in zip(old, results, strict=True):
        entry.objects = [_with_the_rest(made, entry.document.data) for made in result.objects]
        entry.errors, entry.warnings = result.errors, result.warnings
        if entry.route is Route.PROVISIONER and not _names_a_class(entry.document.data):
            assumed = f"names no node class, so EC2NodeClass {_DEFAULT_CLASS} is assumed"
            entry.warnings.append(FieldWarning(("spec",), assumed))
    for entry in entries:
        if entry.route is Route.OTHER and entry.objects:
            entry.objects = [rename_keys(obj).object for obj in entry.objects]


def _take_foreign_classes(entries: Sequence[_Entry]) -> None:
    """Take in objects that pools and claims name as their node class, whatever their kind."""
    named = {
        reference for entry in entries for obj in entry.objects for reference in _classes_named(obj)
    }
    for entry in entries:
        if not entry.is_passed_over:
            continue
        document = entry.document
        home = (str(document.api_version).rpartition("/")[0], document.kind)
        if home in named:
            entry.objects, entry.is_passed_over = [dict(document.data)], False
            entry.is_foreign_class = True


def _classes_named(obj: Mapping[str, Any]) -> Iterator[tuple[object, object]]:
    path = _REFERENCES.get((obj.get("apiVersion"), obj.get("kind")))
    found: object = obj
    for field_name in path or ():
        found = found.get(field_name) if isinstance(found, Mapping) else None
    if path and isinstance(found, Mapping) and isinstance(found.get("kind"), str):
        yield str(found.get("group")), found["kind"]


def _add_runtimes(entries: Sequence[_Entry]) -> None:
    """Add to pods what admission adds for their RuntimeClass, where the class is in the input."""
    classes = runtime_classes(entry.document.data for entry in entries if entry.resource is None)
    for entry in entries if classes else ():
        entry.objects = [as_admitted(obj, classes) for obj in entry.objects]


def _with_the_rest(made: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Keep status, age and uid of a converted object, which dumps of a cluster have."""
    if made["kind"] != written.get("kind"):
        return dict(made)
    stored = rename_keys(written).object
    whole = {**made, "metadata": {**stored["metadata"], **made["metadata"]}}
    return {**whole, "status": stored["status"]} if stored.get("status") else whole


def _names_a_class(provisioner: Mapping[str, Any]) -> bool:
    spec = provisioner.get("spec")
    return isinstance(spec, dict) and any(spec.get(key) for key in ("providerRef", "provider"))


def _judge(entry: _Entry, provider: str, core: CoreKinds) -> None:
    """Check what was not converted; the conversion has validated the rest."""
    if entry.route in _OLD or not entry.objects:
        return
    if entry.is_foreign_class:  # its CRD, which holds the rules, is not known
        entry.errors += metadata_errors(entry.objects[0])
        return
    checked = _checked(entry.objects[0], provider)
    entry.objects = [checked.object]
    entry.errors += checked.errors
    entry.warnings += checked.warnings
    if entry.route is not Route.OTHER:
        return
    said = core.findings(checked.object)
    known = {error.path for error in checked.errors}
    for error in said.errors:
        # An error about the whole object repeats one that is known about a field
        is_said = error.path in known or (known and not error.path)
        if not is_said:
            entry.errors.append(error)
    entry.warnings += said.warnings


def _checked(obj: dict[str, Any], provider: str) -> Checked:
    """Check an object; what only controllers write, such as its status, may be incomplete."""
    if obj["kind"] == "NodeClaim" and isinstance(spec := obj.get("spec"), dict):
        obj = {**obj, "spec": {"requirements": [], **spec}}
    whole = check(obj, provider=provider)
    if not obj.get("status") or not whole.errors:  # no rule asks for a status
        return whole
    if builtin(obj["apiVersion"], obj["kind"]) is None:  # of Kubernetes: no rule spans both parts
        return replace(whole, errors=[e for e in whole.errors if not _is_brief(e)])
    without = check({key: obj[key] for key in obj if key != "status"}, provider=provider)
    more = [e for e in whole.errors if is_below(e.path, _STATUS) and not _is_brief(e)]
    stored = {**without.object, "status": whole.object.get("status")}
    return Checked(stored, [*without.errors, *more], whole.warnings)


def _is_brief(error: FieldError) -> bool:
    """Whether the error is only a required field that a status lacks."""
    return error.kind is ErrorKind.REQUIRED and is_below(error.path, _STATUS)


def _decoded(entry: _Entry) -> Iterator[Resource]:
    if entry.resource is not None:
        yield entry.resource
    for obj in () if entry.errors else entry.objects:
        try:
            resource = _model_of(entry, obj)
        except DecodeError as error:
            entry.errors.append(FieldError(ErrorKind.TYPE_INVALID, error.path, error.problem))
            continue
        if entry.route is not Route.OTHER:  # whose amounts were checked with everything else
            entry.errors += quantity_errors(resource)
        yield resource


def _model_of(entry: _Entry, obj: Mapping[str, Any]) -> Resource:
    if entry.is_foreign_class:
        return convert_as(obj, node_class_model(obj["apiVersion"], obj["kind"]))
    return convert(obj)


def _findings(loaded: Loaded, entries: Iterable[_Entry]) -> Iterator[Finding]:
    """Every finding in the order of the input."""
    for unreadable in loaded.errors:
        yield Finding(str(unreadable), line=unreadable.line)
    left_out = Counter(_kind_of(entry) for entry in entries if _has_no_effect(entry))
    for entry in entries:
        yield from manifest_files.findings(entry.document, entry.errors, entry.warnings)
        alike = left_out.pop(_kind_of(entry), 0) if _has_no_effect(entry) else 0
        if alike:
            yield _passed_over(entry, alike)


def _has_no_effect(entry: _Entry) -> bool:
    return entry.is_passed_over or _is_without_effect(entry.document)


def _is_without_effect(document: Document) -> bool:
    return isinstance(document.kind, str) and document.kind in _WITHOUT_EFFECT


def _passed_over(entry: _Entry, alike: int) -> Finding:
    document = entry.document
    why = _WITHOUT_EFFECT.get(document.data["kind"], _OTHERS)
    if entry.is_passed_over:
        (unknown,) = check(document.data).errors[:1]
        why = unknown.detail if "did you mean" in unknown.detail else why
    more = f" (and {alike - 1} more of it)" if alike > 1 else ""
    line = document.line(("kind",))
    title = manifest_files.title_of(document.data)
    text = f"{document.source.name}:{line}: {title} is ignored: {why}{more}"
    return Finding(text, is_error=False, line=line, field="kind")


def _kind_of(entry: _Entry) -> tuple[str, str]:
    return str(entry.document.api_version), str(entry.document.kind)


def _located(problem: InputProblem, documents: Sequence[Document]) -> Finding:
    at = [documents[position] for position in problem.positions]
    lines = [each.line(("metadata", "name")) for each in at]
    places = [f"{each.source.name}:{line}" for each, line in zip(at, lines, strict=True)]
    where = " and ".join(dict.fromkeys(places))
    return Finding(f"{where}: {problem.text}", line=next(iter(lines), None))

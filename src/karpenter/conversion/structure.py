"""Reading an object by the schema of the version it names, so that conversion can rely on types.

A value of the wrong type is reported and cut out, and the rest is converted: one run then reports
all mistakes of a file. Unknown fields are dropped with a warning, as an API server would drop them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from karpenter.admission.errors import ErrorKind, FieldError, FieldWarning, Path, is_below
from karpenter.admission.schemas.engine import CompiledVersion
from karpenter.admission.schemas.schema import Node
from karpenter.api.meta import JsonObject
from karpenter.conversion.draft import Origins
from karpenter.model.suggestions import nearest_key

DEEPEST: Final = 100

_NESTED_LIMITS: Final = ("spec", "limits", "resources")


@dataclass(frozen=True, slots=True)
class Reading:
    """The well-typed part of an object, and the errors of the rest."""

    object: JsonObject
    origins: Origins
    errors: tuple[FieldError, ...]
    warnings: tuple[FieldWarning, ...]

    @property
    def cut(self) -> tuple[Path, ...]:
        """The paths that were cut out."""
        return tuple(error.path for error in self.errors)


def read(obj: Mapping[str, Any], version: CompiledVersion) -> Reading:
    """Read an object by the schema of its version."""
    plain = _without_null_fields(dict(obj), version.schema)
    known, dropped = version.prune(plain)
    errors = tuple(
        _plainer(error)
        for error in version.validate(known, rules=False)
        if error.kind is ErrorKind.TYPE_INVALID
    )
    cut = {error.path for error in errors}
    rest, moved = _without_parts(known, cut)
    unknown = [path for path in dropped if not any(is_below(path, gone) for gone in cut)]
    return Reading(
        rest, Origins.moved(moved), errors, tuple(_unknown_fields(unknown, version.schema))
    )


def unreadable(obj: object) -> FieldError | None:
    """Why an object is not JSON, or nested too deeply; None when it is neither."""
    pending: list[tuple[object, Path]] = [(obj, ())]
    while pending:
        value, path = pending.pop()
        if len(path) > DEEPEST:
            detail = f"is nested more than {DEEPEST} levels deep"
            return FieldError(ErrorKind.INVALID, path[:3], detail)
        if isinstance(value, Mapping):
            odd = next((key for key in value if not isinstance(key, str)), None)
            if odd is not None:
                detail = f"the key {odd!r} must be text; write it in quotes"
                return FieldError(ErrorKind.INVALID, path, detail)
            pending.extend((part, (*path, key)) for key, part in value.items())
        elif isinstance(value, list):
            pending.extend((part, (*path, index)) for index, part in enumerate(value))
    return None


def concerns(path: Path, cut: Iterable[Path]) -> bool:
    """Whether a finding at ``path`` may be a consequence of a part that was cut out."""
    return any(is_below(path, gone) or is_below(gone, path) for gone in cut)


def _without_null_fields(value: Any, node: Node) -> Any:
    """Drop fields that are null, which means absent; entries of free maps are kept."""
    if isinstance(value, list) and node.items is not None:
        return [_without_null_fields(item, node.items) for item in value]
    if not isinstance(value, Mapping):
        return value
    result = {}
    for key, part in value.items():
        child = node.child(key)
        is_field = key in node.properties and not node.properties[key].is_nullable
        if part is not None or not is_field:
            result[key] = part if child is None else _without_null_fields(part, child)
    return result


def _unknown_fields(paths: Iterable[Path], schema: Node) -> Iterable[FieldWarning]:
    for path in paths:
        parent = schema.at(path[:-1])
        meant = nearest_key(str(path[-1]), parent.properties if parent else ())
        hint = f'; did you mean "{meant}"?' if meant else ""
        yield FieldWarning(path, f"unknown field was dropped{hint}")


def _without_parts(value: Any, gone: set[Path]) -> tuple[Any, dict[Path, Path]]:
    """Cut paths out; the second result maps moved list items to their old paths."""
    moved: dict[Path, Path] = {}

    def rest(part: Any, was: Path, now: Path) -> Any:
        if isinstance(part, Mapping):
            return {
                key: rest(inner, (*was, key), (*now, key))
                for key, inner in part.items()
                if (*was, key) not in gone
            }
        if not isinstance(part, list):
            return part
        result: list[Any] = []
        for index, item in enumerate(part):
            here, there = (*was, index), (*now, len(result))
            if here in gone:
                continue
            if here != there:
                moved[there] = here
            result.append(rest(item, here, there))
        return result

    return (rest(value, (), ()) if gone else value), moved


def _plainer(error: FieldError) -> FieldError:
    if error.path != _NESTED_LIMITS:
        return error
    detail = "limits hold quantities directly; write its entries one level up, as in limits.cpu"
    return FieldError(error.kind, error.path, detail, error.value)

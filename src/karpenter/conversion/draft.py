"""A produced object together with a record of where each of its parts came from.

A produced v1 object is validated by v1 rules, but the user has only the input file; so every
finding is mapped back to the field of the input that caused it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from karpenter.admission.errors import FieldError, FieldWarning, Path, render_path
from karpenter.api.meta import JsonObject


@dataclass(frozen=True, slots=True)
class Origin:
    """The input path a produced part came from.

    ``reshaped``: the parts below have no one-to-one counterpart in the input.
    """

    path: Path
    reshaped: bool = False


@dataclass(frozen=True, slots=True)
class Origins:
    """Produced path -> origin; a path without an entry follows its nearest ancestor."""

    entries: Mapping[Path, Origin] = field(default_factory=dict)

    def of(self, path: Path) -> Origin:
        """Find where the part at ``path`` came from."""
        for length in range(len(path), -1, -1):
            origin = self.entries.get(path[:length])
            if origin is None:
                continue
            if origin.reshaped:
                return origin
            return Origin((*origin.path, *path[length:]))
        return Origin(path)

    @staticmethod
    def moved(entries: Mapping[Path, Path]) -> "Origins":
        """The origins of parts that were moved unchanged."""
        return Origins({path: Origin(source) for path, source in entries.items()})


@dataclass(frozen=True, slots=True)
class Draft:
    """The object made from one input, with findings in paths of the input.

    The object is None where nothing could be produced; the errors then give the reason.
    """

    object: JsonObject | None
    origins: Origins = field(default_factory=Origins)
    errors: Sequence[FieldError] = ()
    warnings: Sequence[FieldWarning] = ()


def trace(path: Path, steps: Sequence[Origins]) -> Origin:
    """Follow ``path`` back through conversion steps, the last step first."""
    reshaped = False
    for origins in steps:
        origin = origins.of(path)
        path, reshaped = origin.path, reshaped or origin.reshaped
    return Origin(path, reshaped)


def led_back(error: FieldError, steps: Sequence[Origins]) -> FieldError:
    """Return the error at the path of the input; the v1 field is named where it differs."""
    origin = trace(error.path, steps)
    produced, detail = render_path(error.path), error.detail
    if not origin.reshaped:
        detail = detail.replace(produced, render_path(origin.path))
    elif produced not in detail:
        needed = f"needed for the v1 field {produced}"
        detail = f"{detail} (v1 field {produced})" if detail else needed
    return replace(error, path=origin.path, detail=detail)


def warning_led_back(warning: FieldWarning, steps: Sequence[Origins]) -> FieldWarning:
    """Return the warning at the path of the input."""
    return replace(warning, path=trace(warning.path, steps).path)

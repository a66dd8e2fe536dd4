"""Lines in the text format of Prometheus, for families too large to be built of objects."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

AT_A_TIME: Final = 100  # objects or samples in one piece, a millisecond or two of work
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_]")


def gauge(name: str, meaning: str, samples: Iterable[str]) -> str:
    """The lines of a gauge; each sample is its labels in braces, a blank and its value."""
    head = f"# HELP {name} {meaning}\n# TYPE {name} gauge\n"
    body = f"\n{name}".join(samples)  # in one go: there may be tens of thousands
    return f"{head}{name}{body}\n" if body else head


def gauge_pieces(name: str, meaning: str, samples: Iterable[str]) -> Iterator[str]:
    """The lines of a gauge with very many samples, in pieces that yield to other tasks.

    A source may yield empty pieces while it computes, so that other tasks run in between.
    """
    yield gauge(name, meaning, ())
    rest = iter(samples)
    while some := list(islice(rest, AT_A_TIME)):
        yield name + f"\n{name}".join(some) + "\n"


def label_text(labels: Mapping[str, str]) -> str:
    """Labels with their values, as they stand between braces."""
    return ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())


def escaped(value: str) -> str:
    """A label value as it stands between quotes."""
    if '"' in value or "\\" in value or "\n" in value:  # rare, so the common case copies nothing
        return value.translate(_ESCAPES)
    return value


def label_name(key: str) -> str:
    """The label that stands for a Kubernetes key; the whole key counts."""
    return _NOT_IN_NAMES.sub("_", key)


def snake_case(key: str) -> str:
    """The label that stands for the last part of a Kubernetes key or for a resource."""
    return _NOT_IN_NAMES.sub("_", key.rpartition("/")[2].lower())


def number(value: float) -> str:
    """A value without superfluous digits."""
    return str(int(value)) if value == int(value) else repr(float(value))

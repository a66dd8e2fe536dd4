"""PyYAML's event stream, and the values of scalar events."""

from collections.abc import Iterator
from typing import Protocol

import yaml

from karpenter.manifests.scalars import Scalar, plain, tagged

# libyaml's parser is several times as fast; PyYAML is sometimes built without it.
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

MERGE_KEY = "<<"


class Mark(Protocol):
    """A place in a text: libyaml's marks and those of the parser in Python; all count from 0."""

    index: int
    line: int
    column: int


def events(text: str) -> Iterator[yaml.Event]:
    """Yield the events of a YAML stream; raise ``yaml.YAMLError`` where it is malformed."""
    stream: Iterator[yaml.Event] = yaml.parse(text, Loader=_LOADER)
    return stream


def start_of(event: yaml.Event) -> Mark:
    """Return the place where an event begins."""
    mark: Mark | None = event.start_mark
    assert mark is not None  # parsers always set it; only events made by hand lack it
    return mark


def value_of(event: yaml.ScalarEvent) -> Scalar:
    """Return the value of a scalar; raise ``ScalarError`` where it has none."""
    text: str = event.value
    is_plain, _ = event.implicit
    if event.tag is not None:
        return tagged(event.tag, text)
    return plain(text) if is_plain else text


def is_merge_key(event: yaml.ScalarEvent) -> bool:
    """Whether a scalar in the place of a key is YAML's merge key."""
    return bool(event.value == MERGE_KEY and event.implicit[0])


def key_of(value: object) -> str | None:
    """Return a value as the key of a JSON object, None where it cannot be one.

    Kubernetes turns YAML into JSON, so that the keys ``8080`` and ``yes`` are "8080" and "true".
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else None

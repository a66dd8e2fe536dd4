"""Whatever is fed to the codec, it answers with an object or with a DecodeError that fits."""

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from helpers.wire_samples import samples
from karpenter.api import codec
from karpenter.api.meta import Resource
from karpenter.api.pods import Pod
from karpenter.api.problems import DecodeError, Path

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def paths(value: object, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    match value:
        case dict():
            for key, member in value.items():
                yield from paths(member, (*path, key))
        case list():
            for index, member in enumerate(value):
                yield from paths(member, (*path, index))


def replaced(value: Any, path: Path, new: object) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


places = st.sampled_from(
    [
        (sample, path)
        for sample in samples()
        for path in paths(sample)
        if path != ("apiVersion",)  # an unknown version is an unknown kind
    ]
)


def error_path(value: dict[str, Any]) -> Path:
    try:
        codec.convert(value)
    except DecodeError as error:
        return error.path
    return ()


def outcome(decoded: Any, *arguments: object) -> Resource | str:
    try:
        resource: Resource = decoded(*arguments)
    except DecodeError as error:
        return str(error)
    return resource


@given(places, json_values)
def test_an_error_points_at_the_place_that_was_spoilt(
    place: tuple[dict[str, Any], Path], new: object
) -> None:
    sample, path = place

    found = error_path(replaced(sample, path, new))

    # Shorter: the value stands where a section was. Deeper: the new section lacks a field.
    shared = min(len(path), len(found))
    assert path[:shared] == found[:shared]


@given(places, json_values)
def test_bytes_and_plain_data_fare_alike(place: tuple[dict[str, Any], Path], new: object) -> None:
    spoilt = replaced(*place, new)

    assert outcome(codec.convert, spoilt) == outcome(codec.decode, json.dumps(spoilt).encode())


@given(st.binary(max_size=64))
def test_any_bytes_give_an_object_or_a_decode_error(data: bytes) -> None:
    outcome(codec.decode, data)
    outcome(codec.decode_list, data, Pod)
    outcome(codec.decode_event, data, Pod)

"""What is too large, too deep or repeats itself too often is refused before it costs memory."""

import pytest

from karpenter.manifests import limits
from karpenter.manifests.errors import ManifestError
from karpenter.manifests.reader import read

BILLION_LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
MERGED_LAUGHS = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{l: *a{i - 1}, r: *a{i - 1}, <<: *a{i - 1}}}\n" for i in range(1, 40)
)
DEEP = "lists and mappings are nested more than 100 levels deep"


def nested(depth: int) -> str:
    """A mapping whose value is lists in lists: ``depth`` levels in all."""
    return "a: " + "[" * (depth - 1) + "]" * (depth - 1)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(
            BILLION_LAUGHS,
            "f:6:10: aliases such as `*a4` repeat more than 100,000 values; "
            "write out what is meant",
            id="anchors that explode",
        ),
        pytest.param(
            MERGED_LAUGHS,
            "f:10:21: aliases such as `*a8` repeat more than 100,000 values; "
            "write out what is meant",
            id="merge keys that explode",
        ),
        pytest.param(nested(101), f"f:1:103: {DEEP}", id="flow lists one level too deep"),
        pytest.param("a:\n" + "- " * 101, f"f:2:199: {DEEP}", id="block lists too deep"),
        pytest.param(
            "".join(" " * i + "a:\n" for i in range(102)), f"f:101:101: {DEEP}", id="mappings"
        ),
        pytest.param(
            "x: &x " + "[" * 60 + "]" * 60 + "\ny: " + "[" * 60 + "*x" + "]" * 60,
            f"f:2:64: {DEEP}",
            id="an alias that makes it too deep",
        ),
        pytest.param(
            '{"a": ' + "[" * 100 + "]" * 100 + "}", f"f:1:106: {DEEP}", id="JSON one too deep"
        ),
        pytest.param('{"a":' * 100_000, f"f:1:501: {DEEP}", id="JSON far too deep"),
    ],
)
def test_depth_and_repetition(text: str, sentence: str) -> None:
    with pytest.raises(ManifestError) as refused:
        read(text.encode(), "f")

    assert sentence == str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(nested(100), id="YAML"),
        pytest.param('{"a": ' + "[" * 99 + "]" * 99 + "}", id="JSON"),
    ],
)
def test_a_hundred_levels_are_fine(text: str) -> None:
    (document,) = read(text.encode(), "f")

    assert list(document.data) == ["a"]


def test_a_mapping_with_many_aliases_of_small_values_is_fine() -> None:
    text = "x: &x {a: 1, b: 2}\n" + "".join(f"k{i}: *x\n" for i in range(5_000))

    (document,) = read(text.encode(), "f")

    assert document.data["k4999"] == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "limit", "value", "sentence"),
    [
        pytest.param(
            "a: b\n" * 3,
            "MAX_YAML_BYTES",
            10,
            "f:3: the file is larger than the 0 MiB that YAML may have; split it",
            id="bytes of YAML",
        ),
        pytest.param(
            '{"a": "bbbbbbbbbbbbbbbb"}',
            "MAX_JSON_BYTES",
            10,
            "f:1: the file is larger than the 0 MiB that JSON may have; split it",
            id="bytes of JSON",
        ),
        pytest.param(
            "a: [1, 2, 3]",
            "MAX_YAML_VALUES",
            3,
            "f:1:5: the file holds more than 3 values; split it into several files",
            id="values of YAML",
        ),
        pytest.param(
            '{"a": [1, 2, 3]}',
            "MAX_JSON_VALUES",
            3,
            "f:1: the file holds more than 3 values; split it into several files",
            id="values of JSON",
        ),
    ],
)
def test_size(
    text: str, limit: str, value: int, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, limit, value)

    with pytest.raises(ManifestError) as refused:
        read(text.encode(), "f")

    assert sentence == str(refused.value)


def test_json_beyond_the_limits_of_yaml_is_not_tried_as_yaml(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MAX_YAML_BYTES", 4)

    with pytest.raises(ManifestError, match="a key in double quotes is expected here"):
        read(b"{a: 1}", "f")

"""An unquoted word means here what it means to kubectl (checked against kubectl 1.32)."""

import pytest

from karpenter.manifests.errors import ManifestError
from karpenter.manifests.reader import read


def value_of(text: str) -> object:
    (document,) = read(f"key: {text}\n".encode(), "scalars.yaml")
    return document.data["key"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", True),
        ("True", True),
        ("yes", True),
        ("Yes", True),
        ("y", True),
        ("Y", True),
        ("on", True),
        ("ON", True),
        ("false", False),
        ("no", False),
        ("n", False),
        ("OFF", False),
        ("tRue", "tRue"),
        ("oN", "oN"),
        ('"yes"', "yes"),
        ("'no'", "no"),
        ("", None),
        ("~", None),
        ("null", None),
        ("NULL", None),
        ("nULL", "nULL"),
        ('""', ""),
        ("12", 12),
        ("+12", 12),
        ("-12", -12),
        ("-0", 0),
        ("1_000", 1000),
        ("1__0", 10),
        ("_1", "_1"),
        ("0755", 493),
        ("0o17", 15),
        ("0O7", 7),
        ("0o8", "0o8"),
        ("08", 8),
        ("012345678901", 12345678901),
        ("0x1F", 31),
        ("0X1f", 31),
        ("-0x1f", -31),
        ("0x_ff", 255),
        ("0b101", 5),
        ("-0b11", -3),
        ("0x", "0x"),
        ("9223372036854775807", 9223372036854775807),
        ("9223372036854775808", 9223372036854775808),
        ("123456789012345678901", 123456789012345678901.0),
        ("0xfffffffffffffffff", "0xfffffffffffffffff"),
        ("1.5", 1.5),
        ("5.", 5),
        (".5", 0.5),
        ("+.5", 0.5),
        ("1.0", 1),
        ("-0.0", 0),
        ("1e3", 1000),
        ("12e03", 12000),
        ("-1.5e3", -1500),
        ("1e30", 1e30),
        ("1e999", "1e999"),
        ("1" * 400, "1" * 400),
        ("1e", "1e"),
        ("1.5.2", "1.5.2"),
        ("nan", "nan"),
        ("1:30", "1:30"),
        ("190:20:30", "190:20:30"),
        ("2001-01-01", "2001-01-01"),
        ("2001-01-01T00:00:00Z", "2001-01-01T00:00:00Z"),
        ("100m", "100m"),
        ("=", "="),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("!!timestamp 2001-01-01", "2001-01-01"),
        ('!!int "3"', 3),
        ("!!float 3", 3),
        ("!!bool yes", True),
        ('!!null ""', None),
        ("!!binary aGVsbG8=", "hello"),
        ("!!map {a: 1}", {"a": 1}),
        ("!!seq [1]", [1]),
        ("Straße 京都 🚀", "Straße 京都 🚀"),
    ],
)
def test_value_of_a_scalar(text: str, expected: object) -> None:
    value = value_of(text)

    assert (type(expected), expected) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (".inf", "`.inf` is not a number that JSON can carry"),
        ("-.Inf", "`-.Inf` is not a number that JSON can carry"),
        (".NaN", "`.NaN` is not a number that JSON can carry"),
        ("!!int x", "`x` is not what its tag `!!int` says"),
        ("!!int yes", "`yes` is not what its tag `!!int` says"),
        ("!!null x", "`x` is not what its tag `!!null` says"),
        ("!!binary ö", "a !!binary value must be base64 of UTF-8 text"),
        ("!!binary /w==", "a !!binary value must be base64 of UTF-8 text"),
        (
            "!Ref Bucket",
            "the tag `!Ref` has no meaning in a Kubernetes manifest; write the value without it",
        ),
        (
            "!Foo {a: 1}",
            "the tag `!Foo` has no meaning in a Kubernetes manifest; write the value without it",
        ),
        (
            "!!set {a}",
            "the tag `!!set` has no meaning in a Kubernetes manifest; write the value without it",
        ),
    ],
)
def test_a_scalar_that_json_cannot_carry_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ManifestError) as refused:
        value_of(text)

    assert f"scalars.yaml:1:6: {problem}" == str(refused.value)


@pytest.mark.parametrize(
    ("key", "expected"),
    [("8080", "8080"), ("yes", "true"), ("off", "false"), ("1.5", "1.5"), ('"no"', "no")],
)
def test_a_key_becomes_text_as_in_json(key: str, expected: str) -> None:
    (document,) = read(f"{key}: x\n".encode(), "keys.yaml")

    assert {expected: "x"} == document.data


@pytest.mark.parametrize("key", ["~", "[a]", "{a: b}", "? [a]\n"])
def test_a_key_that_json_cannot_carry_is_refused(key: str) -> None:
    with pytest.raises(ManifestError, match="a key must be a word, a number or quoted text"):
        read(f"a: b\n{key}: x\n".encode(), "keys.yaml")

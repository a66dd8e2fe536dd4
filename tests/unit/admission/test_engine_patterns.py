"""Patterns mean what they mean to Go, whichever engine runs them."""

import pytest

from karpenter.admission.patterns import PatternError, compile_go, portable
from unit.admission.small_crds import TEXT, complaints, fields

CASES = [
    pytest.param("a", ["xay"], ["b"], id="a pattern is not anchored"),
    pytest.param("^a$", ["a"], ["a\n", "ba"], id="the end is the end, not before a line feed"),
    pytest.param(r"^\d+$", ["12"], ["٣"], id="digits are those of ASCII"),
    pytest.param(r"^\w+$", ["a_1"], ["é"], id="word characters are those of ASCII"),
    pytest.param(r"^\s$", [" ", "\t"], ["\v", "\u00a0"], id="a vertical tab is no space"),
    pytest.param(r"^\S$", ["\v", "a"], [" "], id="a vertical tab is no space, negated"),
    pytest.param(r"^[\sx]$", [" ", "x"], ["\v"], id="spaces inside brackets"),
    pytest.param("^.$", ["\r", "é", "😀"], ["\n"], id="a dot is anything but a line feed"),
    pytest.param("^(?:a|b)*?$", ["ab"], ["c"], id="a group that captures nothing"),
    pytest.param("^a{2,3}$", ["aa"], ["a"], id="a repetition"),
    pytest.param("^a{,2}$", ["a{,2}"], ["aa"], id="a repetition without a lower bound is text"),
    pytest.param("^[a[b]$", ["[", "b"], ["c"], id="a bracket inside brackets is itself"),
    pytest.param("^[[:alpha:]_]+$", ["aB_"], ["1"], id="a named class"),
    pytest.param(r"^[\w-.]$", ["-", "."], ["!"], id="a hyphen after a class is itself"),
    pytest.param("^[]a]$", ["]", "a"], ["b"], id="a closing bracket that comes first is itself"),
    pytest.param("^[^]a]$", ["b"], ["]", "a"], id="likewise in a negated class"),
    pytest.param("^[a&&b]$", ["&"], ["c"], id="ampersands inside brackets are themselves"),
    pytest.param(r"\Aab\z", ["ab"], ["ab\n"], id="beginning and end of text"),
    pytest.param("(?i)^abc$", ["ABC"], ["abd"], id="a flag for case"),
    pytest.param("(?m)^b$", ["a\nb\nc"], ["ab"], id="a flag for lines"),
    pytest.param(r"\Qa.b\E", ["a.b"], ["axb"], id="quoted text"),
    pytest.param("(?P<n>x)y", ["xy"], ["x"], id="a named group"),
    pytest.param("(?<n>x)y", ["xy"], ["x"], id="a named group, the short way"),
    pytest.param(r"^\x41\x{42}\103$", ["ABC"], ["AB"], id="characters by number"),
    pytest.param(r"^[\x41-\x43\]]$", ["B", "]"], ["D"], id="characters by number inside brackets"),
    pytest.param(r"^\.\-\/\_$", [".-/_"], ["x-/_"], id="escaped punctuation"),
    pytest.param(r"\bfoo\b", ["a foo", "éfoo"], ["foot"], id="a word boundary of ASCII"),
]


@pytest.mark.parametrize(("pattern", "accepted", "refused"), CASES)
def test_python_reads_a_pattern_as_go_does(
    pattern: str, accepted: list[str], refused: list[str]
) -> None:
    compiled = compile_go(pattern)

    found = [text for text in (*accepted, *refused) if compiled.search(text)]

    assert accepted == found


@pytest.mark.parametrize(("pattern", "accepted", "refused"), CASES)
def test_a_schema_reads_a_pattern_as_go_does(
    pattern: str, accepted: list[str], refused: list[str]
) -> None:
    schema = fields(x={**TEXT, "pattern": pattern})

    found = [text for text in (*accepted, *refused) if not complaints(schema, {"x": text})]

    assert accepted == found


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        pytest.param(
            "(?=a)", "'(?=a)' uses a kind of group that Go does not have", id="look-ahead"
        ),
        pytest.param(r"(a)\1", r"'(a)\\1' uses \1, which is not supported", id="back reference"),
        pytest.param(r"\pL", r"'\\pL' uses \p, which is not supported", id="Unicode class"),
        pytest.param("(?U)a+", "'(?U)a+' uses the flag U, which is not supported", id="ungreedy"),
        pytest.param("[a", "'[a' uses a bracket that is never closed", id="open bracket"),
        pytest.param(
            "[[:foo:]]",
            "'[[:foo:]]' uses the character class [:foo:], which is not supported",
            id="class that does not exist",
        ),
        pytest.param(
            r"\x{110000}",
            r"'\\x{110000}' uses \x{110000}, a character that does not exist",
            id="character that does not exist",
        ),
        pytest.param(
            "a)",
            "'a)' is not a regular expression: unbalanced parenthesis at position 1",
            id="parenthesis",
        ),
    ],
)
def test_what_cannot_be_expressed_is_refused(pattern: str, problem: str) -> None:
    with pytest.raises(PatternError) as caught:
        compile_go(pattern)

    assert problem == str(caught.value)


def test_common_patterns_run_in_the_linear_engine() -> None:
    hard = r"^((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"

    assert portable(hard) == hard.replace(r"\s", r"[\t\n\x0c\r ]")

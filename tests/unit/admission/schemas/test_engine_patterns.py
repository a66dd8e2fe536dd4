"""Patterns mean what they mean to Go, whichever engine runs them."""

import pytest

from karpenter.admission.schemas.patterns import PatternError, compile_go, portable
from unit.admission.small_crds import TEXT, complaints, crd_problems, fields, ruled

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
    pytest.param("^a${2}", ["a"], ["aa"], id="an anchor that is repeated"),
    pytest.param("^.{1,1000}$", ["é" * 1000], ["a" * 1001], id="as often as may be"),
    pytest.param(r"^\pL+$", ["dé"], ["1"], id="a class of Unicode"),
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
def test_a_pattern_is_read_as_by_go(pattern: str, accepted: list[str], refused: list[str]) -> None:
    compiled = compile_go(pattern)

    found = [text for text in (*accepted, *refused) if compiled.is_in(text)]

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
        pytest.param("(?=a)", "invalid perl operator: (?=", id="look-ahead"),
        pytest.param(r"(a)\1", r"invalid escape sequence: \1", id="back reference"),
        pytest.param("[a", "missing ]: [a", id="open bracket"),
        pytest.param("[[:foo:]]", "invalid character class range: [:foo:]", id="unknown class"),
        pytest.param(r"\x{110000}", r"invalid escape sequence: \x{110000", id="no character"),
        pytest.param("a)", "unexpected ): a)", id="parenthesis"),
        pytest.param("a{1001}", "invalid repetition size: {1001}", id="too many times"),
        pytest.param("(a{100}){11}", "invalid repetition size: {11}", id="too many times in all"),
        pytest.param(r"a\C", r"\C is not supported", id="one byte"),
    ],
)
def test_what_go_refuses_is_refused(
    pattern: str, problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    expected = f"{pattern!r} is not a regular expression: {problem}"

    with pytest.raises(PatternError) as caught:
        compile_go(pattern)

    assert expected == str(caught.value)
    (told,) = crd_problems(fields(x={**TEXT, "pattern": pattern}))
    assert told.endswith(expected)
    assert ("", "") == capfd.readouterr()


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a*", "baaab", ["", "aaa", ""]),
        ("a*?", "aé", ["", "", ""]),
        ("é|", "éa", ["é", ""]),
        (r"\b", "ab cd", ["", "", "", ""]),
        (r"\pL+", "dé1ß", ["dé", "ß"]),
        ("(?U)a+", "aa", ["a", "a"]),
        ("(a)(b)?", "aab", ["a", "ab"]),
        (r"\QC\C\E", r"C\C", [r"C\C"]),
    ],
)
def test_all_matches_are_those_of_go(pattern: str, text: str, found: list[str]) -> None:
    assert found == list(compile_go(pattern).all_in(text))
    assert next(iter(found), "") == compile_go(pattern).first_in(text)


HARD = [
    pytest.param("^(a+)+$", id="nested repetition"),
    pytest.param("^(?:a|a)*$", id="equal alternatives"),
    pytest.param("(?i)^(a|b|ab)*c$", id="overlapping alternatives, beyond the schema library"),
    pytest.param(f"^{'a?' * 500}{'a' * 500}$", id="many choices"),
    pytest.param("^([[:alpha:]]+)*$", id="a named class, beyond the schema library"),
]


@pytest.mark.parametrize("pattern", HARD)
def test_no_pattern_takes_more_than_linear_time(pattern: str) -> None:
    """An engine that tries one way after the other would not come back from any of these."""
    text = "a" * 20_000 + "!"
    rules = [
        f"!self.matches({pattern!r})",
        f"self.find({pattern!r}) == ''",
        f"self.findAll({pattern!r}) == []",
    ]

    assert 1 == len(complaints(fields(x={**TEXT, "pattern": pattern}), {"x": text}))
    assert [] == complaints(fields(x=ruled(TEXT, *rules)), {"x": text})


def test_a_very_long_pattern_is_no_burden() -> None:
    with pytest.raises(PatternError) as caught:
        compile_go("[a" * 100_000)

    assert len(str(caught.value)) < 400
    assert portable("[a]" * 100_000) is None
    assert compile_go("[a]" * 1_000).is_in("a" * 1_000)


def test_common_patterns_run_in_the_linear_engine() -> None:
    hard = r"^((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"

    assert portable(hard) == hard.replace(r"\s", r"[\t\n\x0c\r ]")

"""Every way in which people break YAML or JSON gets one sentence with the exact place."""

import pytest
import yaml

from karpenter.manifests import yamlevents
from karpenter.manifests.errors import ManifestError
from karpenter.manifests.reader import read

TAB = "tabs may not indent YAML: replace the tab with spaces"
NEITHER = (
    "this is neither a `key: value` pair nor a list item: "
    "check its indentation, or add the missing colon"
)
ELISION = "something was left out here: replace the elision `...` with the real content"
DOCUMENT_END = (
    "`...` ends the document: replace the elision `...` with the real content, "
    "or begin the next document with `---`"
)
SEVERAL = (
    "several values stand where one is expected: write each value as its own list item, "
    'or all of them in brackets like ["a", "b"]'
)
TEMPLATE = "`{{` begins a template: render it first, for example with `helm template`"
TOO_DEEP_INDENT = (
    "this pair is indented as if it belonged to the value above it: "
    "align it with its siblings, or put that value in quotes"
)
FENCE = "this is a Markdown fence: keep only the lines between the fences"
LOADERS = [
    pytest.param(getattr(yaml, "CSafeLoader", yaml.SafeLoader), id="libyaml"),
    pytest.param(yaml.SafeLoader, id="the parser in Python"),
]

YAML_MISTAKES = [
    pytest.param("a:\n\tb: c\n", "2:1", TAB, id="a tab indents a pair"),
    pytest.param("a:\n  b: c\n\td: e\n", "3:1", TAB, id="a tab indents a later pair"),
    pytest.param("a:\n  b:\n  \tc: 1\n", "3:3", TAB, id="a tab follows spaces"),
    pytest.param("a: |\n\tfoo\n", "2:1", TAB, id="a tab indents a block of text"),
    pytest.param('v:\n  - "a", "b"\n', "2:8", SEVERAL, id="several quoted values in an item"),
    pytest.param("v: 'a', 'b'\n", "1:7", SEVERAL, id="several quoted values after a key"),
    pytest.param(
        'a: "b" c\n',
        "1:8",
        "text follows a closing quote: put the whole value in one pair of quotes",
        id="text behind a quote",
    ),
    pytest.param("a: b\nspec:\n...\n  c: d\n", "3:1", DOCUMENT_END, id="an elision at the margin"),
    pytest.param("a:\n  ...\n  b: c\n", "2:3", ELISION, id="an indented elision"),
    pytest.param("a:\n  - b\n  ...\n  - c\n", "3:3", ELISION, id="an elision in a list"),
    pytest.param(
        "a:\n  …\n  b: c\n", "2:3", ELISION.replace("...", "…"), id="an elision in one character"
    ),
    pytest.param("```yaml\na: b\n```\n", "1:1", FENCE, id="a fence at the start"),
    pytest.param("a:\n  b: c\n```\n", "3:1", FENCE, id="a fence at the end"),
    pytest.param(
        "a:\n<<<<<<< HEAD\n  b: c\n=======\n",
        "2:1",
        "`<<<<<<<` marks a merge conflict: resolve it first",
        id="a merge conflict",
    ),
    pytest.param("a: {{ .Values.x }}-foo\n", "1:4", TEMPLATE, id="a template in a value"),
    pytest.param("{{- if x }}\na: b\n{{- end }}\n", "1:1", TEMPLATE, id="a template on a line"),
    pytest.param(
        "a: {{ .Values.x }}\n",
        "1:4",
        TEMPLATE,
        id="a template that is well-formed YAML",
    ),
    pytest.param(
        "a: b\n--\nc: d\n",
        "2:1",
        "`--` separates nothing: write `---` between documents",
        id="a separator of two dashes",
    ),
    pytest.param(
        "a: b: c\n",
        "1:5",
        "the value contains a colon and a space: put the whole value in quotes",
        id="a colon in a value",
    ),
    pytest.param("a: b\n  c: d\n", "2:4", TOO_DEEP_INDENT, id="a pair indented too far"),
    pytest.param(
        "a:\n    b: c\n  d: e\n",
        "3:3",
        "the indentation fits none of the lines above, which begin on line 1: "
        "align this line with its siblings",
        id="a pair indented too little",
    ),
    pytest.param(
        "a: b\n- c\n",
        "2:1",
        "a list item stands among `key: value` pairs: indent it under its key",
        id="an item among pairs",
    ),
    pytest.param(
        "a: - b\n",
        "1:4",
        "a list item cannot begin here: put it on its own line below the key",
        id="an item behind its key",
    ),
    pytest.param("a: b\nfoo\nc: d\n", "2:1", NEITHER, id="a line without a colon"),
    pytest.param("a = b\nc: d\n", "1:1", NEITHER, id="an equals sign for a colon"),
    pytest.param(
        "a:\n  b:c\n  d: e\n", "2:3", "a space is missing after the colon", id="no space after :"
    ),
    pytest.param(
        "a:\n  - b\n  -c\n  - d\n",
        "3:3",
        "a space is missing after the dash",
        id="no space after -",
    ),
    pytest.param('a: "b\nc: d\n', "1:4", "this quote is never closed", id="an open quote"),
    pytest.param(
        "a: [b, c\nd: e\n",
        "1:4",
        "the brackets that open here are not closed: add the missing `]` or comma",
        id="an open list",
    ),
    pytest.param(
        "a: {b: c\nd: e\n",
        "1:4",
        "the brackets that open here are not closed: add the missing `}` or comma",
        id="an open mapping",
    ),
    pytest.param(
        "a: [b,\n",
        "2:1",
        "the text ends where a value is expected: write it, or close the brackets",
        id="a list that ends with the text",
    ),
    pytest.param(
        "a: @b\n", "1:4", "a value cannot begin with `@`: put it in quotes", id="an at sign"
    ),
    pytest.param(
        "a: `b`\n",
        "1:4",
        "a value cannot begin with a backtick: put it in quotes",
        id="a backtick",
    ),
    pytest.param(
        "a: *.example.com\n",
        "1:4",
        "a value cannot begin with `*`: put it in quotes",
        id="an asterisk",
    ),
    pytest.param(
        "a: }\n", "1:4", "a value cannot begin with `}`: put it in quotes", id="a stray bracket"
    ),
    pytest.param(
        'a: "\\xZZ"\n',
        "1:7",
        "the escape is not known in double quotes: double the backslash",
        id="an unknown escape",
    ),
    pytest.param(
        "a: !h!x y\n",
        "1:4",
        "the tag is not understood: write the value without it",
        id="an undeclared tag",
    ),
    pytest.param(
        "a: |x\n b\n",
        "1:5",
        "the text after `|` or `>` begins on the next line",
        id="text on the line of its indicator",
    ),
    pytest.param(
        "a: 1\nb: 2\na: 3\n",
        "3:1",
        "the key `a` is already set on line 1; keep one of them",
        id="a key twice",
    ),
    pytest.param(
        "x: 1\n---\ny:\n- z: {1: b, '1': c}\n",
        "4:13",
        "the key `1` is already set on line 4; keep one of them",
        id="a key twice in two spellings, in a later document",
    ),
    pytest.param(
        "a: &x {b: 1}\nc:\n  <<: *x\n  <<: *x\n",
        "4:3",
        "the key `<<` is already set on line 3; keep one of them",
        id="two merge keys",
    ),
    pytest.param(
        "a: &x 1\nc:\n  <<: *x\n",
        "3:7",
        "the merge key `<<` takes a mapping or a list of mappings",
        id="a number merged",
    ),
    pytest.param(
        "a: *x\n",
        "1:4",
        "no anchor `&x` stands before the alias `*x`",
        id="an alias without anchor",
    ),
    pytest.param(
        "a: &x\n  b: *x\n",
        "2:6",
        "the alias `*x` stands inside its own anchor",
        id="an alias inside its anchor",
    ),
    pytest.param(
        "a: &x 1\n---\nb: *x\n",
        "3:4",
        "no anchor `&x` stands before the alias `*x`",
        id="an anchor of another document",
    ),
]


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(("text", "place", "problem"), YAML_MISTAKES)
def test_a_mistake_in_yaml(
    text: str,
    place: str,
    problem: str,
    loader: type[yaml.SafeLoader],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(yamlevents, "_LOADER", loader)

    with pytest.raises(ManifestError) as refused:
        read(text.encode(), "file.yaml")

    assert f"file.yaml:{place}: {problem}" == str(refused.value)


def test_a_rare_mistake_is_told_in_the_words_of_the_parser() -> None:
    with pytest.raises(ManifestError) as refused:
        read(b"%YAML 3.0\n---\na: b\n", "file.yaml")

    expected = "file.yaml:1:1: the file is not valid YAML: found incompatible YAML document"
    assert expected == str(refused.value)[: len(expected)]


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        pytest.param(
            '{"a": 1,\n "b"}', "2:5", "a colon is expected here", id="a key without a value"
        ),
        pytest.param(
            '{"a": [1 2]}',
            "1:10",
            "a comma or a closing bracket is expected here",
            id="a missing comma",
        ),
        pytest.param('{"a": 1', "1:8", "a comma or a closing bracket is expected here", id="cut"),
        pytest.param('{"a": "b', "1:7", "this quote is never closed", id="an open quote"),
        pytest.param('{"a": "b"} x: [', "1:12", "a value is expected here", id="text behind it"),
        pytest.param(
            '{"a": "\\d"}',
            "1:8",
            "the escape is not known in JSON: double the backslash",
            id="an unknown escape",
        ),
    ],
)
def test_a_mistake_in_json(text: str, place: str, problem: str) -> None:
    with pytest.raises(ManifestError) as refused:
        read(text.encode(), "file.json")

    assert f"file.json:{place}: the file is not valid JSON: {problem}" == str(refused.value)


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        pytest.param(
            '{"x": {"a": 1},\n "y": [{"a": 1,\n  "a": 2}]}',
            "3:3",
            "the key `a` is already set on line 2; keep one of them",
            id="a key twice",
        ),
        pytest.param(
            '{"a": 1, "\\u0061": 2}',
            "1:10",
            "the key `a` is already set on line 1; keep one of them",
            id="a key twice, once escaped",
        ),
        pytest.param('{"a": NaN}', "1:7", "NaN is not a number that JSON can carry", id="NaN"),
        pytest.param(
            '{"a": -Infinity}',
            "1:7",
            "-Infinity is not a number that JSON can carry",
            id="infinity",
        ),
        pytest.param('{"a": 1e999}', "1:7", "the number 1e999 is too large", id="a huge number"),
        pytest.param(
            '{"a": ' + "9" * 5000 + "}",
            "1:7",
            "the number 99999999999999999999… is too large",
            id="a huge integer",
        ),
        pytest.param(
            '{"a": "\\ud800"}',
            "1:7",
            "the text holds half of a UTF-16 surrogate pair, which is no character",
            id="half a surrogate pair",
        ),
    ],
)
def test_json_that_kubernetes_would_not_store(text: str, place: str, problem: str) -> None:
    with pytest.raises(ManifestError) as refused:
        read(text.encode(), "file.json")

    assert f"file.json:{place}: {problem}" == str(refused.value)


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        pytest.param("- a: b\n", "1", "a list", id="a list in YAML"),
        pytest.param('\n[{"a": 1}]', "2", "a list", id="a list in JSON"),
        pytest.param("a: b\n---\njust words\n", "3", "text", id="a sentence"),
        pytest.param("---\n12\n", "2", "a number", id="a number"),
        pytest.param("---\nyes\n", "2", "a boolean", id="a boolean"),
        pytest.param('{"a": 1}\n12', "2", "a number", id="a number behind an object in JSON"),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems:\n- kind: A\n- b\n", "5", "text", id="a List's item"
        ),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems:\n-\n", "4", "empty", id="an empty item of a List"
        ),
    ],
)
def test_what_is_not_an_object_is_refused(text: str, place: str, what: str) -> None:
    with pytest.raises(ManifestError) as refused:
        read(text.encode(), "f")

    expected = f"f:{place}: an object with apiVersion and kind is expected here, but this is {what}"
    assert expected == str(refused.value)


def test_the_error_keeps_the_facts_apart() -> None:
    with pytest.raises(ManifestError) as refused:
        read(b"a: 1\na: 2\n", "file.yaml")

    error = refused.value
    assert (error.name, error.line, error.column) == ("file.yaml", 2, 1)
    assert error.problem == "the key `a` is already set on line 1; keep one of them"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"kind": "Pod",\n "a": 1e999null}',
            "in.json:2:7: a value is expected here, and this is none that JSON knows",
        ),
        ('{"a": 1e999}]', "in.json:1:7: the number 1e999 is too large"),
        ("{\"a\": 1e999, 'b'}", "in.json:1:7: the number 1e999 is too large"),
    ],
)
def test_a_number_too_large_is_told_although_the_rest_is_no_json(text: str, said: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(text.encode(), "in.json")

    assert said == str(caught.value)

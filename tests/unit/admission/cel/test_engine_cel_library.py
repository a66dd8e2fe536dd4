"""Kubernetes' CEL functions answer as they do in Kubernetes."""

import subprocess
import sys
from typing import Any

import pytest

from karpenter.admission.cel.expression import Functions, compile_expression
from karpenter.admission.cel.runtime import EVALUATION_ERRORS, Context


def outcome(source: str, value: Any = None) -> object:
    """What an expression gives for ``self``, or the error it reports."""
    expression = compile_expression(source, ("self",))
    functions = Functions(expression.functions)
    context = Context(variables={"self": value}, functions=functions.by_name)
    try:
        return expression.run(context, is_ascii=source.isascii() and str(value).isascii())
    except EVALUATION_ERRORS as error:
        return f"error: {functions.explain(error)}"


TOO_LONG = "error: operation cancelled: actual cost limit exceeded"
TOO_PRECISE = (
    "error: could not parse formatting clause: the precision must not be greater than 1000"
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        # text
        ("'tacocat'.charAt(3)", "o"),
        ("'tacocat'.charAt(7)", ""),
        ("'tacocat'.charAt(8)", "error: index out of range: 8"),
        ("'hello mellow'.indexOf('ello')", 1),
        ("'hello mellow'.indexOf('ello', 2)", 7),
        ("'hello mellow'.indexOf('jello')", -1),
        ("'hello'.indexOf('')", 0),
        ("'hello'.indexOf('l', 20)", "error: index out of range: 20"),
        ("'hello mellow'.lastIndexOf('ello')", 7),
        ("'hello mellow'.lastIndexOf('ello', 6)", 1),
        ("'hello'.lastIndexOf('l', 9)", "error: index out of range: 9"),
        ("['a', 'b'].join()", "ab"),
        ("['a', 'b'].join('-')", "a-b"),
        ("'TacoCÆt'.lowerAscii()", "tacocÆt"),
        ("'TacoCæt'.upperAscii()", "TACOCæT"),
        ("'hello hello'.replace('he', 'we')", "wello wello"),
        ("'hello hello'.replace('he', 'we', 1)", "wello hello"),
        ("'hello'.replace('he', 'we', 0)", "hello"),
        ("'a,b,c'.split(',')", ["a", "b", "c"]),
        ("'a,b,c'.split(',', 0)", []),
        ("'a,b,c'.split(',', 1)", ["a,b,c"]),
        ("'a,b,c'.split(',', 2)", ["a", "b,c"]),
        ("'abc'.split('')", ["a", "b", "c"]),
        ("'abc'.split('', 2)", ["a", "bc"]),
        ("'tacocat'.substring(4)", "cat"),
        ("'tacocat'.substring(0, 4)", "taco"),
        ("'tacocat'.substring(-1)", "error: index out of range: -1"),
        ("'tacocat'.substring(4, 2)", "error: invalid substring range. start: 4, end: 2"),
        ("'  trim\\n '.trim()", "trim"),
        ("'%s: %d of %.1f %%'.format(['a', 2, 3.25])", "a: 2 of 3.2 %"),
        ("'%x %X %o %b %e'.format([255, 255, 8, 5, 1.5])", "ff FF 10 101 1.500000e+00"),
        ("'%s %s'.format([true, ['a', 1]])", "true [a, 1]"),
        ("'%d'.format([])", "error: index out of range: too few values to format"),
        (
            "'%q'.format([1])",
            'error: could not parse formatting clause: unrecognized formatting clause "q"',
        ),
        ("'%.0f %.3e'.format([1.5, 1.5])", "2 1.500e+00"),
        ("'%.1000f'.format([0.5]).size()", 1002),
        ("'%.1001f'.format([0.5])", TOO_PRECISE),
        ("'%.999999999f'.format([0.5])", TOO_PRECISE),
        (f"'%.{'9' * 5000}e'.format([0.5])", TOO_PRECISE),
        ("'%s'.format([['a'].map(x, 'b')])", "[b]"),
        # results that are longer than any object
        (f"'{'a' * 4000}'.replace('', '{'b' * 4000}')", TOO_LONG),
        (f"'{'a' * 4000}'.replace('', '{'b' * 4000}', 2).size()", 12_000),
        (f"'{'a' * 4000}'.replace('a', '{'b' * 4000}')", TOO_LONG),
        (f"'{'a' * 2000}'.split('').map(x, '{'b' * 4000}').join()", TOO_LONG),
        (f"'{'a' * 2000}'.split('').join('{'b' * 4000}')", TOO_LONG),
        (f"'{'%s' * 2000}'.format('{'a' * 2000}'.split('').map(x, '{'b' * 4000}'))", TOO_LONG),
        ("'äöü'.size()", 3),
        ("size('äöü') + size([1]) + size({'a': 1})", 5),
        # patterns
        ("'ab12cd'.matches('[0-9]+')", True),
        ("'abcd'.matches('[0-9]+')", False),
        (
            "'ab'.matches('[a')",
            "error: illegal regex: '[a' is not a regular expression: missing ]: [a",
        ),
        ("'abc 123'.find('[0-9]+')", "123"),
        ("'abc'.find('[0-9]+')", ""),
        ("'1 22 333'.findAll('[0-9]+')", ["1", "22", "333"]),
        ("'1 22 333'.findAll('[0-9]+', 2)", ["1", "22"]),
        ("'1 22 333'.findAll('[0-9]+', 0)", []),
        # lists and sets
        ("[1, 2, 2].isSorted()", True),
        ("['b', 'a'].isSorted()", False),
        ("[].isSorted()", True),
        ("[1, 3].sum()", 4),
        ("[1.5, 2.0].sum()", 3.5),
        ("string([duration('1m'), duration('2m')].sum())", "3m0s"),
        ("[3, 1].min()", 1),
        ("['a', 'c'].max()", "c"),
        ("[].min()", "error: min called on empty list"),
        ("[].max()", "error: max called on empty list"),
        ("[1, 2, 2].indexOf(2)", 1),
        ("[1, 2, 2].lastIndexOf(2)", 2),
        ("[1, 2].indexOf(true)", -1),
        ("sets.contains([1, 2, 3], [2])", True),
        ("sets.contains([1], [1, 2])", False),
        ("sets.equivalent([1, 1, 2], [2, 1])", True),
        ("sets.intersects([1], [2])", False),
        ("sets.intersects([1, 2], [2])", True),
        # conversions
        ("bool('true') && !bool('f')", True),
        ("bool('yes')", "error: type conversion error from 'string' to 'bool'"),
        ("string(true) + string(1) + string(2.5)", "true12.5"),
        ("int('12') + int(3.7)", 15),
        ("int('x')", "error: string parse error: invalid digit found in string"),
        ("type('a') == string && type([]) == list && type(1.0) == double", True),
        # quantities
        ("isQuantity('1.3Gi') && !isQuantity('200K')", True),
        ("quantity('1Gi') == quantity('1024Mi')", True),
        ("quantity('200M').compareTo(quantity('0.2G'))", 0),
        ("quantity('1').isLessThan(quantity('1500m'))", True),
        ("quantity('1').isGreaterThan(quantity('1500m'))", False),
        ("quantity('50k').add(quantity('20')).asInteger()", 50020),
        ("quantity('50k').sub(20).asInteger()", 49980),
        ("quantity('1500m').isInteger()", False),
        ("quantity('1500m').asInteger()", "error: cannot convert value to integer"),
        ("quantity('1500m').asApproximateFloat()", 1.5),
        ("[quantity('-1').sign(), quantity('0').sign(), quantity('5m').sign()]", [-1, 0, 1]),
        # addresses
        ("isURL('https://example.com:80/a') && !isURL('../relative')", True),
        ("url('https://user@example.com:80/a?b=c').getHost()", "example.com:80"),
        ("url('https://example.com:80/a?b=c').getHostname()", "example.com"),
        ("url('https://example.com/a%20b?b=c').getEscapedPath()", "/a%20b"),
        ("[url('http://a:80').getPort(), url('http://a').getPort()]", ["80", ""]),
        ("url('https://a/b?k=v&k=w&e=').getQuery()", {"k": ["v", "w"], "e": [""]}),
        ("url('https://a').getScheme()", "https"),
        ("isIP('10.0.0.1') && isIP('::1') && !isIP('10.0.0')", True),
        ("[ip('10.0.0.1').family(), ip('::1').family()]", [4, 6]),
        ("ip('0.0.0.0').isUnspecified() && ip('127.0.0.1').isLoopback()", True),
        ("ip('169.254.1.1').isLinkLocalUnicast() && ip('224.0.0.1').isLinkLocalMulticast()", True),
        ("ip('8.8.8.8').isGlobalUnicast() && !ip('127.0.0.1').isGlobalUnicast()", True),
        ("ip.isCanonical('::1') && !ip.isCanonical('0::1')", True),
        ("ip('::1') == ip('0:0::1')", True),
        ("isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0')", True),
        ("cidr('10.0.0.0/8').containsIP('10.1.2.3')", True),
        ("cidr('10.0.0.0/8').containsIP(ip('11.1.2.3'))", False),
        ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", True),
        ("cidr('10.0.0.0/8').containsCIDR(cidr('::/0'))", False),
        ("cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')", True),
        ("cidr('10.1.2.3/8').prefixLength()", 8),
        ("string(cidr('10.1.2.3/8').ip())", "10.1.2.3"),
        # of the engine itself
        ("duration('1h30m').getMinutes()", 90),
        ("timestamp('2026-01-02T03:04:05Z').getFullYear()", 2026),
        ("[1, 2, 3].filter(x, x > 1).map(x, x * 2)", [4, 6]),
        ("[1, 2].exists_one(x, x == 1) && [1].exists(x, x == 1)", True),
        ("'a' in {'a': 1} && 1 in [1]", True),
        ("optional.of(1).orValue(2) + optional.none().orValue(2)", 3),
    ],
)
def test_function(source: str, expected: object) -> None:
    assert expected == outcome(source)


@pytest.mark.parametrize(
    "source",
    [
        "self.charAt('a')",
        "self.join(',')",
        "self.isSorted(1)",
        "self.asInteger()",
        "self.getHost()",
        "quantity(self).getHost()",
        "self.family()",
    ],
)
def test_a_call_with_the_wrong_types_finds_no_overload(source: str) -> None:
    assert outcome(source, 1) == "error: no such overload"


@pytest.mark.parametrize(
    ("source", "fields"),
    [
        pytest.param("has(self.a) && self.b.c == 1", {"a": None, "b": {"c": None}}, id="fields"),
        pytest.param("self.a.b == 1 || self.a == {}", {"a": None}, id="a field and all of it"),
        pytest.param("self.a.all(x, x.b == 1)", {"a": None}, id="a macro on a field"),
        pytest.param("self.a[0].b == 1", {"a": None}, id="an item of a field"),
        pytest.param("size(self.a) > 0", {"a": None}, id="a field as an argument"),
        pytest.param("self == 1 || self.a == 1", None, id="the whole"),
        pytest.param("self['a'] == 1", None, id="an entry by its key"),
        pytest.param("self.matches('self.a')", None, id="a method, whatever its arguments say"),
        pytest.param("[{'a': 1}].all(self, self.a == 1)", None, id="a variable of the same name"),
        pytest.param("true // self.a", {}, id="a comment"),
        pytest.param("'self.a' == ''", {}, id="a text"),
        pytest.param("{'x': 1}.self == 1 || self.a == 1", {"a": None}, id="a field called self"),
    ],
)
def test_the_fields_an_expression_reads(source: str, fields: object) -> None:
    assert fields == compile_expression(source, ("self",)).reads("self")


def test_the_engine_comes_without_its_command_line() -> None:
    script = "import sys, karpenter.admission.cel.rules; print('prompt_toolkit' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout == "False\n"


def test_a_failing_function_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    outcome("'abc'.substring(9)")

    assert caplog.records == []

"""Quantities are read, rounded and printed exactly as Kubernetes does it."""

from decimal import Decimal

import pytest

from karpenter.model.quantity import (
    Family,
    QuantityError,
    canonical,
    format_quantity,
    is_quantity,
    millis,
    parse,
    units,
)


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        pytest.param("0", "0", id="zero"),
        pytest.param("1", "1", id="a bare number"),
        pytest.param("+1", "1", id="an explicit plus"),
        pytest.param("-1", "-1", id="a negative number"),
        pytest.param("007", "7", id="leading zeros"),
        pytest.param(".5", "0.5", id="no whole part"),
        pytest.param("5.", "5", id="no fraction after the point"),
        pytest.param("1.G", "1000000000", id="a suffix right after the point"),
        pytest.param("5n", "0.000000005", id="nano"),
        pytest.param("4u", "0.000004", id="micro"),
        pytest.param("100m", "0.1", id="milli"),
        pytest.param("8k", "8000", id="kilo"),
        pytest.param("7M", "7000000", id="mega"),
        pytest.param("6G", "6000000000", id="giga"),
        pytest.param("5T", "5000000000000", id="tera"),
        pytest.param("2P", "2000000000000000", id="peta"),
        pytest.param("1E", "1000000000000000000", id="a bare E is exa"),
        pytest.param("1E3", "1000", id="E with digits is an exponent"),
        pytest.param("1e3", "1000", id="a small e is an exponent"),
        pytest.param("1.3E+6", "1300000", id="an exponent with a plus"),
        pytest.param("1E-3", "0.001", id="a negative exponent"),
        pytest.param("1Ki", "1024", id="kibi"),
        pytest.param("7Mi", "7340032", id="mebi"),
        pytest.param("6Gi", "6442450944", id="gibi"),
        pytest.param("5Ti", "5497558138880", id="tebi"),
        pytest.param("4Pi", "4503599627370496", id="pebi"),
        pytest.param("3Ei", "3458764513820540928", id="exbi"),
        pytest.param("0.5Gi", "536870912", id="half a gibi"),
        pytest.param("100.035Ki", "102435.84", id="a binary number may have a fraction"),
        pytest.param("1.2345", "1.2345", id="more than three decimals are kept"),
        pytest.param("18446744073709551616", "18446744073709551616", id="decimals know no cap"),
        pytest.param("12E", "12000000000000000000", id="decimal suffixes know no cap"),
        pytest.param("8Ei", "9223372036854775807", id="binary is capped at 63 bits"),
        pytest.param("-9Ei", "-9223372036854775807", id="negative binary is capped too"),
        pytest.param("9223372036854775807Ki", "9223372036854775807", id="a long binary is capped"),
        pytest.param("0.9n", "0.000000001", id="less than a nano is rounded up"),
        pytest.param("-0.9n", "-0.000000001", id="less than a nano is rounded away from zero"),
        pytest.param("3.001n", "0.000000004", id="between two nanos is rounded up"),
        pytest.param("1.234567890123", "1.234567891", id="digits beyond nano are rounded up"),
        pytest.param("0.000000000001Ki", "0.000000002", id="a sliver of a kibi is rounded up"),
        pytest.param("1e-99999999999", "0.000000001", id="next to nothing is still something"),
        pytest.param("0e-99999999999", "0", id="nothing stays nothing"),
        pytest.param(3, "3", id="a JSON integer"),
        pytest.param(-3, "-3", id="a negative JSON integer"),
        pytest.param(0.5, "0.5", id="a JSON float"),
        pytest.param(0.1, "0.1", id="a JSON float that binary cannot hold"),
        pytest.param(1e21, "1000000000000000000000", id="a large JSON float"),
        pytest.param(1e-07, "0.0000001", id="a small JSON float"),
    ],
)
def test_parse_gives_the_exact_amount(value: object, amount: str) -> None:
    assert Decimal(amount) == parse(value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param("", "is not a quantity", id="empty text"),
        pytest.param("abc", "is not a quantity", id="a word"),
        pytest.param(".", "is not a quantity", id="a lone point"),
        pytest.param("-", "is not a quantity", id="a lone sign"),
        pytest.param("Ki", "is not a quantity", id="a lone suffix"),
        pytest.param("1.1.M", "is not a quantity", id="two points"),
        pytest.param("1+1.0M", "is not a quantity", id="a sum"),
        pytest.param("--1", "is not a quantity", id="two signs"),
        pytest.param("1e1.5", "is not a quantity", id="a broken exponent"),
        pytest.param("-3.01e-", "is not a quantity", id="an exponent without digits"),
        pytest.param(" 1", "is not a quantity", id="a leading blank"),
        pytest.param("1 ", "unknown suffix ' '", id="a trailing blank"),
        pytest.param("1\n", r"unknown suffix '\\n'", id="a line break stays on one line"),
        pytest.param("1_000", "unknown suffix '_000'", id="digit groups"),
        pytest.param("\u0661", "is not a quantity", id="digits of another script"),
        pytest.param("1i", "unknown suffix 'i'", id="an i alone"),
        pytest.param("0.1am", "unknown suffix 'am'", id="letters before a suffix"),
        pytest.param("1GB", "use one of n u m k M", id="bytes are not a suffix"),
        pytest.param("0.1mi", "did you mean Mi", id="a small m for mebi"),
        pytest.param("1gi", "did you mean Gi", id="a small g for gibi"),
        pytest.param("1K", "did you mean k", id="a capital K for kilo"),
        pytest.param("1e1001", "larger than any resource", id="an absurd exponent"),
        pytest.param("9" * 257, "257 characters is too long", id="absurdly many digits"),
        pytest.param(10**1001, "larger than any resource", id="an absurd integer"),
        pytest.param(float("nan"), "'nan' is not a quantity", id="not a number"),
        pytest.param(float("inf"), "'inf' is not a quantity", id="infinity"),
        pytest.param(True, "not a bool", id="a boolean"),
        pytest.param(None, "not nothing", id="null"),
        pytest.param(["1"], "not a list", id="a list"),
        pytest.param({"cpu": 1}, "not a dict", id="a map"),
    ],
)
def test_what_is_not_a_quantity_is_refused_with_a_reason(value: object, reason: str) -> None:
    with pytest.raises(QuantityError, match=reason) as refusal:
        parse(value)

    assert "\n" not in str(refusal.value)
    assert is_quantity(value) is False


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("0", "0", id="zero"),
        pytest.param("0Ki", "0", id="zero of anything is zero"),
        pytest.param("-0", "0", id="zero has no sign"),
        pytest.param("1000m", "1", id="a thousand milli are one"),
        pytest.param("1.5", "1500m", id="no fraction is printed"),
        pytest.param("1.08", "1080m", id="no digit is lost"),
        pytest.param("1.2345", "1234500u", id="micro when milli would lose a digit"),
        pytest.param("1.234567890123", "1234567891n", id="nano at the finest"),
        pytest.param("50k", "50k", id="exponents go in threes"),
        pytest.param("1000M", "1G", id="the largest suffix"),
        pytest.param("1000", "1k", id="a bare thousand"),
        pytest.param("1234000", "1234k", id="the largest suffix that loses nothing"),
        pytest.param("1000E", "1e21", id="beyond exa only exponents are left"),
        pytest.param("5000E", "5e21", id="beyond exa nothing is lost"),
        pytest.param("0.5Gi", "512Mi", id="half a gibi"),
        pytest.param("1.5Gi", "1536Mi", id="one and a half gibi"),
        pytest.param("1024Mi", "1Gi", id="the largest binary suffix"),
        pytest.param("100000Ki", "100000Ki", id="kibi that make no whole mebi"),
        pytest.param("1048576Ei", "9223372036854775807", id="the cap has no binary suffix"),
        pytest.param("1Ei", "1Ei", id="exbi is the largest binary suffix"),
        pytest.param(".5Ki", "512", id="below a kibi the suffix is decimal"),
        pytest.param(".001Ki", "1024m", id="a fraction of a kibi"),
        pytest.param(".000000000001Ki", "2n", id="a sliver of a kibi"),
        pytest.param("100.035Ki", "102435840m", id="a binary number with a fraction"),
        pytest.param("-1.5Gi", "-1536Mi", id="a negative binary number"),
        pytest.param("-1.5", "-1500m", id="a negative decimal number"),
        pytest.param("1e3", "1e3", id="exponents stay exponents"),
        pytest.param("1E3", "1e3", id="exponents get a small e"),
        pytest.param("12e20", "1200e18", id="exponents go in threes, rounded down"),
        pytest.param("1.5e3", "1500", id="an exponent of zero is left out"),
        pytest.param("0.5e-1", "50e-3", id="a negative exponent"),
        pytest.param(".001e12", "1e9", id="an exponent absorbs the fraction"),
        pytest.param(1500, "1500", id="a JSON integer"),
        pytest.param(0.5, "500m", id="a JSON float"),
    ],
)
def test_canonical_form(value: object, text: str) -> None:
    assert text == canonical(value)


@pytest.mark.parametrize(
    ("value", "whole", "thousandths"),
    [
        pytest.param("1", 1, 1000, id="whole"),
        pytest.param("100m", 1, 100, id="a tenth"),
        pytest.param("1100m", 2, 1100, id="a little more than one"),
        pytest.param("1n", 1, 1, id="next to nothing is rounded up"),
        pytest.param("1.0005", 2, 1001, id="half a milli is rounded up"),
        pytest.param("-1.0005", -2, -1001, id="negative amounts are rounded away from zero"),
        pytest.param("0", 0, 0, id="zero"),
        pytest.param("1Gi", 2**30, 2**30 * 1000, id="binary"),
    ],
)
def test_integers_are_rounded_away_from_zero(value: str, whole: int, thousandths: int) -> None:
    assert (whole, thousandths) == (units(value), millis(value))


@pytest.mark.parametrize(
    ("units_", "family", "text"),
    [
        pytest.param(2**30, Family.BINARY, "1Gi", id="binary"),
        pytest.param(2**30, Family.DECIMAL, "1073741824", id="decimal"),
        pytest.param(10**6, Family.EXPONENT, "1e6", id="exponent"),
        pytest.param(1000, Family.BINARY, "1k", id="binary below a kibi is decimal"),
        pytest.param(-1000, Family.BINARY, "-1k", id="negative binary below a kibi is decimal"),
        pytest.param(2**70, Family.BINARY, "1024Ei", id="binary beyond the largest suffix"),
    ],
)
def test_an_amount_is_printed_in_its_family(units_: int, family: Family, text: str) -> None:
    assert text == format_quantity(units_ * 10**9, family)

"""Quantities agree with plain fractions, and whatever is printed reads back as the same."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.model.quantity import QuantityError, canonical, is_quantity, millis, parse, units

QUICK = settings(max_examples=100, deadline=None)

FACTORS = {
    "": Fraction(1),
    **{s: Fraction(1000) ** i for i, s in enumerate(["n", "u", "m", "", *"kMGTPE"], start=-3)},
    **{f"{s}i": Fraction(1024) ** i for i, s in enumerate("KMGTPE", start=1)},
    **{f"{e}{n}": Fraction(10) ** n for e in "eE" for n in range(-15, 25)},
}
LARGEST_BINARY = 2**63 - 1

digits = st.text("0123456789", min_size=1, max_size=20)
numbers = st.one_of(
    digits,
    st.builds("{}.{}".format, digits, st.just("") | digits),
    st.builds(".{}".format, digits),
)
pieces = st.tuples(st.sampled_from(["", "+", "-"]), numbers, st.sampled_from(sorted(FACTORS)))


def round_away(value: Fraction, step: Fraction) -> Fraction:
    whole, rest = divmod(abs(value), step)
    rounded = (whole + (1 if rest else 0)) * step
    return rounded if value >= 0 else -rounded


def exact(sign: str, number: str, suffix: str) -> Fraction:
    value = Fraction(f"0{number}0" if "." in number else number) * FACTORS[suffix]
    value = round_away(value, Fraction(1, 10**9))
    if suffix.endswith("i"):
        value = min(value, Fraction(LARGEST_BINARY))
    return -value if sign == "-" else value


@QUICK
@given(pieces)
def test_parse_is_the_fraction_rounded_away_from_zero(parts: tuple[str, str, str]) -> None:
    assert exact(*parts) == Fraction(parse("".join(parts)))


@QUICK
@given(pieces)
def test_units_and_millis_round_away_from_zero(parts: tuple[str, str, str]) -> None:
    value, text = exact(*parts), "".join(parts)

    assert round_away(value, Fraction(1)) == units(text)
    assert round_away(value, Fraction(1, 1000)) * 1000 == millis(text)


@QUICK
@given(pieces)
def test_the_canonical_form_is_exact_and_final(parts: tuple[str, str, str]) -> None:
    text = canonical("".join(parts))

    assert exact(*parts) == Fraction(parse(text))
    assert text == canonical(text)
    assert "." not in text
    assert not text.startswith("+")


@QUICK
@given(st.integers(-(10**30), 10**30))
def test_integers_mean_themselves(number: int) -> None:
    assert number == units(number) == units(str(number))


@QUICK
@given(st.floats(-1e15, 1e15))
def test_floats_mean_the_text_json_has_for_them(number: float) -> None:
    assert parse(repr(number)) == parse(number)


@QUICK
@given(st.text("0123456789.+-eEinumkKMGTPi _", max_size=12) | st.text(max_size=8))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    if is_quantity(text):
        assert parse(text) == parse(canonical(text))
    else:
        with pytest.raises(QuantityError) as refusal:
            parse(text)
        assert str(refusal.value).isprintable()

"""Resource vectors behave like plain mappings in which a missing name is zero."""

from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.model.resources import NO_RESOURCES, Resources, total

QUICK = settings(max_examples=80, deadline=None)

NAMES = ["cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu", "a/b"]
amounts = st.dictionaries(st.sampled_from(NAMES), st.integers(-3, 5))
large_amounts = st.dictionaries(st.sampled_from(NAMES), st.integers(-(2**62), 2**62))

Amounts = dict[str, int]


def of(amounts: Amounts) -> Resources:
    return Resources.of(amounts)


@QUICK
@given(amounts, amounts)
def test_fits_agrees_with_the_definition(request: Amounts, available: Amounts) -> None:
    expected = all(amount >= 0 for amount in available.values()) and all(
        amount <= available.get(name, 0) for name, amount in request.items()
    )

    assert expected is of(request).fits(of(available))


@QUICK
@given(large_amounts, large_amounts)
def test_operations_go_name_by_name(left: Amounts, right: Amounts) -> None:
    a, b = of(left), of(right)

    for name in NAMES:
        x, y = left.get(name, 0), right.get(name, 0)
        assert (x + y, x - y) == ((a + b)[name], (a - b)[name])
        assert (max(x, y), min(x, y)) == (a.highest(b)[name], a.lowest(b)[name])
        assert x * 3 == (a * 3)[name]


@QUICK
@given(large_amounts, large_amounts)
def test_equal_meaning_is_equality(left: Amounts, right: Amounts) -> None:
    same = all(left.get(name, 0) == right.get(name, 0) for name in NAMES)
    a, b = of(left), of(right)

    assert same is (a == b)
    assert not same or hash(a) == hash(b)
    assert (a - a) == NO_RESOURCES
    assert a == (a + b) - b


@QUICK
@given(large_amounts)
def test_the_wire_loses_nothing(amounts: Amounts) -> None:
    assert of(amounts) == Resources.from_wire(of(amounts).to_wire())


@QUICK
@given(st.lists(large_amounts, max_size=5))
def test_a_total_is_the_sum_of_its_parts(parts: list[Amounts]) -> None:
    expected = {name: sum(part.get(name, 0) for part in parts) for name in NAMES}

    assert of(expected) == total(of(part) for part in parts)

"""A memory that keeps short texts, and of long ones nothing."""

from collections import Counter

from karpenter.model.memo import ORDINARY, remembered


def test_short_texts_are_worked_out_once_and_long_ones_each_time() -> None:
    asked: Counter[str] = Counter()

    @remembered(4)
    def length(text: str, factor: int) -> int:
        asked[text] += 1
        return len(text) * factor

    longer = "x" * (ORDINARY + 1)

    results = [length(text, 2) for text in ("short", longer, "short", longer)]

    assert [10, 2 * len(longer)] * 2 == results
    assert {"short": 1, longer: 2} == asked


def test_only_so_many_are_kept() -> None:
    asked: Counter[bytes] = Counter()

    @remembered(2, longest=1)
    def upper(text: bytes) -> bytes:
        asked[text] += 1
        return text.upper()

    for text in (b"a", b"b", b"c", b"a"):
        upper(text)

    assert {b"a": 2, b"b": 1, b"c": 1} == asked

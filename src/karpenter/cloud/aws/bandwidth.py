"""The baseline network bandwidth of instance types, in Mbit/s.

EC2 tells it per network card. It is left away for families whose rating was only ever a word, such
as "moderate"; a few types are rated differently from what their cards add up to.
"""

from typing import Final

from karpenter.cloud.aws.facts import TypeFacts
from karpenter.cloud.aws.names import family_and_size

_VAGUE_FAMILIES: Final = frozenset({"c1", "m1", "m2", "m3", "t1", "t2"})
# Family -> vCPUs from which on its sizes have a rating
_RATED_FROM: Final = {"c3": 32, "c4": 36, "d2": 36, "i2": 32, "m4": 40, "r3": 32}
_TEN_GIGABIT: Final = frozenset({"c3", "h1", "i3", "r3", "r4"})
_TWO_HUNDRED_GIGABIT: Final = frozenset({"c6in", "m6in", "m6idn", "r6in", "r6idn", "hpc6id"})
_RATINGS: Final = {
    "g6e.24xlarge": 200_000,
    "g6e.48xlarge": 400_000,
    "i4i.12xlarge": 28_120,
    "i7i.12xlarge": 28_120,
    "i8g.12xlarge": 28_120,
    "i8g.metal-48xl": 90_000,
    "i8ge.48xlarge": 180_000,
    "i8ge.metal-48xl": 180_000,
    "trn2.3xlarge": 200_000,
    "vt1.3xlarge": 3_120,
}
_FAMILY_RATINGS: Final = {"hpc8a": 300_000, "p6-b200": 3_200_000, "p6-b300": 6_400_000}
_THIRDS: Final = frozenset({33_333, 66_666, 133_333})  # sums that are rated in tens


def network_mbps(facts: TypeFacts) -> int | None:
    """The bandwidth a type always has, or None when nobody says."""
    family, size = family_and_size(facts.name)
    rated = _rating(facts.name, family, size)
    if rated is not None:
        return rated
    if family in _VAGUE_FAMILIES or facts.vcpus < _RATED_FROM.get(family, 0):
        return None
    gbps = [card.baseline_gbps for card in facts.cards if card.baseline_gbps is not None]
    if not gbps:
        return None
    total = round(sum(gbps) * 1000)
    return total // 10 * 10 if total in _THIRDS else total


def _rating(name: str, family: str, size: str) -> int | None:
    if name in _RATINGS:
        return _RATINGS[name]
    if family in _FAMILY_RATINGS:
        return _FAMILY_RATINGS[family]
    if family in _TEN_GIGABIT and size == "8xlarge":
        return 10_000
    if family in _TWO_HUNDRED_GIGABIT and size in ("32xlarge", "metal"):
        return 200_000
    return None

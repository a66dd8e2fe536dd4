"""Settling a claim in the domains that topology leaves open.

A claim that must settle takes the best domain of each label that something can be launched in. The
best of one label and the best of another need not be sold together, so the next best are tried
before the claim is given up.
"""

from collections.abc import Iterator, Sequence

from karpenter.scheduling.claims import Shape, Shapes
from karpenter.scheduling.topology import Choice


def settled_in(
    shapes: Shapes, shape: Shape, bits: int, choices: Sequence[Choice]
) -> tuple[Shape, int] | None:
    """Narrow a claim to open domains of every label, or return None when they do not go together.

    Args:
        bits: the offerings the claim has left.
        choices: at least one, each about another label.
    """
    ways = _ways(shapes, shape, bits, choices[0])
    if len(choices) == 1:
        return next(ways, None)
    rest = choices[1:]
    for narrowed, left in ways:
        found = settled_in(shapes, narrowed, left, rest)
        if found is not None:
            return found
    return None


def _ways(shapes: Shapes, shape: Shape, bits: int, choice: Choice) -> Iterator[tuple[Shape, int]]:
    apart = ((domain,) for domain in choice.domains)
    for domains in apart if choice.pin else (choice.domains,):
        narrowed = shapes.settled(shape, choice.key, domains)
        if narrowed is not None and (left := bits & narrowed.bits):
            yield narrowed, left

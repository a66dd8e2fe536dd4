"""Settling a claim in the domains that topology leaves open.

A claim that must settle takes the best domain of each label that something can be launched in. The
best of one label and the best of another need not be sold together, so the next best are tried
before the claim is given up.
"""

from collections.abc import Iterator, Sequence

from karpenter.model.requirement import Requirement
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
    key = choice.key
    held = shape.requirements.get(key)
    if held is None:
        if not shapes.may_be_undefined(key):
            return  # nodes of this pool will not have the label
        held = Requirement(key)
    apart = ((domain,) for domain in choice.domains)
    for domains in apart if choice.pin else (choice.domains,):
        allowed = frozenset(filter(held.has, domains))
        if not allowed:
            continue
        narrowed = shapes.narrowed(shape, Requirement(key, False, allowed))
        left = bits & narrowed.bits
        if left:
            yield narrowed, left

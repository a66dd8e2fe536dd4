"""Settling a claim in the domains that topology leaves open.

A claim that must settle takes the best domain of each label that something can be launched in. The
best of one label and the best of another need not be sold together, so the next best are tried
before the claim is given up; unless they are not good enough, because another claim may have better.
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
    if not choice.pin:
        ways: Iterator[tuple[str, ...]] = iter((choice.domains,))
    elif choice.slack is not None and choice.counts:
        ways = _good_enough(shapes, shape, choice, choice.slack)
    else:
        ways = ((domain,) for domain in choice.domains)
    for domains in ways:
        narrowed = shapes.settled(shape, choice.key, domains)
        if narrowed is not None and (left := bits & narrowed.bits):
            yield narrowed, left


def _good_enough(shapes: Shapes, shape: Shape, choice: Choice, slack: int) -> Iterator[tuple[str]]:
    """Yield the domains that are nearly as good as the best of those the claim itself allows."""
    most = None
    for domain, count in zip(choice.domains, choice.counts, strict=True):
        if most is not None and count > most:
            return
        if shapes.settled(shape, choice.key, (domain,)) is not None:
            most = count + slack if most is None else most
            yield (domain,)

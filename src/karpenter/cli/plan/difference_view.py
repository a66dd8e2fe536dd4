"""What ``--with`` changes in a plan, as text."""

from collections import Counter
from collections.abc import Iterator, Sequence

from karpenter.console.screen import (
    BAD,
    GOOD,
    HOURS_PER_MONTH,
    MOST_ROWS,
    QUIET,
    TITLE,
    Parts,
    counted,
    per_hour,
    per_month,
    sample,
    sentences,
    table,
    without_default,
    words,
)
from karpenter.report.difference import NOWHERE, Difference, Model

_A_CENT_A_MONTH = 0.01 / HOURS_PER_MONTH


def difference_parts(difference: Difference) -> Parts:
    """Lay out what differs from the plan without the change."""
    yield words("What --with changes", TITLE)
    yield sentences([(_cost(difference), "")])
    if difference.is_none:
        yield words("  The same nodes for the same pods", QUIET)
        return
    rows = table([("", "left"), ("", "right"), ("", "left")])
    rows.show_header = False
    changes = [
        *_models("node to create", "+", difference.more),
        *_models("node to create", "-", difference.fewer),
        *_names("node to remove", "+", sorted(difference.after.going - difference.before.going)),
        *_names("node to remove", "-", sorted(difference.before.going - difference.after.going)),
        *_names("pod", "+", [without_default(pod) for pod in difference.pods_added]),
        *_names("pod", "-", [without_default(pod) for pod in difference.pods_removed]),
    ]
    for what, count, names in changes[:MOST_ROWS]:
        style = GOOD if count.startswith("+") else BAD
        rows.add_row("", words(what), words(count, style), words(names))
    if changes:
        yield rows
    if len(changes) > MOST_ROWS:
        more = counted(len(changes) - MOST_ROWS, "row")
        yield words(f"  … and {more} more; -o json has them all", QUIET)
    yield from _changed(difference)


def _cost(difference: Difference) -> str:
    change = difference.hourly_change_known
    is_estimate = difference.before.is_estimate or difference.after.is_estimate
    unknown = sample([_priced(each) for each in difference.unknown], most=3)
    if abs(change) < _A_CENT_A_MONTH:
        if unknown:
            return (
                f"Whether the plan costs more or less is unknown, because the price of {unknown} is"
            )
        return "The plan costs the same"
    word = "more" if change > 0 else "less"
    hour = per_hour(abs(change), is_estimate=is_estimate)
    month = per_month(abs(change), is_estimate=is_estimate)
    but = f"; the price of {unknown} is unknown" if unknown else ""
    return f"The plan costs {hour} per hour {word}, {month} per month{but}"


def _priced(thing: str) -> str:
    kind, _, name = thing.partition("/")
    return f"a new node of {name}" if kind == "NodePool" else name


def _models(what: str, sign: str, counts: "Counter[Model]") -> Iterator[tuple[str, str, str]]:
    for (pool, *machine), count in sorted(counts.items()):
        described = " ".join(filter(None, machine)) or "no machine left"
        yield what, f"{sign}{count:,}", f"{described} of {pool}"


def _names(what: str, sign: str, names: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    if names:
        yield what, f"{sign}{len(names):,}", sample(names, most=3)


def _changed(difference: Difference) -> Parts:
    alike: dict[tuple[str, str], list[str]] = {}
    for pod, old, new in difference.pods_changed:
        alike.setdefault((old, new), []).append(without_default(pod))
    if not alike:
        return
    yield words("")
    yield words("Pods that go elsewhere", TITLE)
    rows = table([("without", "left"), ("with", "left"), ("pods", "right"), ("", "left")])
    for (old, new), pods in list(alike.items())[:MOST_ROWS]:
        cells = (_place(old), _place(new), f"{len(pods):,}", sample(pods, most=3))
        rows.add_row("", *map(words, cells))
    yield rows


def _place(place: str) -> str:
    kind, _, name = place.partition("/")
    if place == NOWHERE:
        return "nowhere"
    return f"a new node of {name}" if kind == "NodePool" else name

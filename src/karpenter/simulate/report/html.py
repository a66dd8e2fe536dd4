"""The report as one page that works from a file: data, script and style in it, and no request out of it.

A Content-Security-Policy allows nothing but the page's own script and style, by their hashes. What
comes from the scenario or the cluster is JSON in a data block, which the script shows as text only.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any, Final

from karpenter.api.meta import JsonObject

MOST_POINTS: Final = 2000  # of a series
MOST_LIVES: Final = 3000  # of all variants together
MOST_DECISIONS: Final = 4000
_LONGEST_SENTENCE: Final = 400
_LONGEST_SOURCE: Final = 200_000
_DIGITS: Final = 6
# Decisions of least weight, which go first where there are too many
_LIGHT: Final = ("Refuse", "Config", "Provision", "Launch", "Register", "Limit")


def page(report: JsonObject, source: str = "") -> str:
    """A report as a page; ``source`` is the text of its scenario."""
    data = _in_script({**_reduced(report), "source": source[:_LONGEST_SOURCE]})
    script = _asset("uplot/uPlot.iife.min.js") + "\n" + _asset("page.js")
    style = _asset("uplot/uPlot.min.css") + "\n" + _asset("page.css")
    policy = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    title = escape(f"{report['scenario']['name']}: karpenter simulate")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<script type="application/json" id="data">{data}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def thinned(times: Sequence[float], series: Sequence[Sequence[float]]) -> list[int]:
    """Which points of series on one grid to keep: the extremes of each series in each part of it."""
    count = len(times)
    if count <= MOST_POINTS or not series:
        return list(range(count))
    kept = {0, count - 1}
    parts = max(1, (MOST_POINTS - 2) // (2 * len(series)))
    for part in range(parts):
        numbers = range(part * count // parts, (part + 1) * count // parts)
        for values in series:
            kept.add(min(numbers, key=values.__getitem__))
            kept.add(max(numbers, key=values.__getitem__))
    return sorted(kept)


def _reduced(report: JsonObject) -> JsonObject:
    """What the page shows of a report."""
    variants = report["variants"]
    shown = {name: report[name] for name in ("scenario", "version", "comparison", "warnings")}
    # One grid for all variants, so that they can be subtracted
    every = [values for variant in variants for values in _drawn(variant["series"])]
    grids = {len(variant["series"]["times"]) for variant in variants}
    common = thinned(variants[0]["series"]["times"], every) if len(grids) == 1 else None
    return {
        **shown,
        "notModelled": report["notModelled"],
        "variants": [_variant(each, common, len(variants)) for each in variants],
    }


def _variant(variant: Mapping[str, Any], common: list[int] | None, count: int) -> JsonObject:
    series = variant["series"]
    kept = common or thinned(series["times"], _drawn(series))
    lives = _longest(variant["lifelines"], MOST_LIVES // count, variant["ended"])
    told = _weightiest(variant["timeline"], MOST_DECISIONS // count)
    return {
        **variant,
        "series": {
            **_picked(series, kept),
            "evictions": _summed(series["evictions"], kept),
        },
        "lifelines": [_rounded(life) for life in lives],
        "lifelinesLeftOut": len(variant["lifelines"]) - len(lives),
        "timeline": [
            {**each, "sentence": each["sentence"][:_LONGEST_SENTENCE], "nodes": None}
            for each in told
        ],
        "timelineLeftOut": len(variant["timeline"]) - len(told),
    }


def _drawn(series: Mapping[str, Any]) -> list[list[float]]:
    """The series whose extremes matter most."""
    names = ("dollarsHourly", "nodes", "pending", "running")
    return [series[name] for name in names if series[name]]


def _picked(value: Any, kept: Sequence[int]) -> Any:
    """Series at the points that are kept, rounded."""
    if isinstance(value, Mapping):
        return {name: _picked(part, kept) for name, part in value.items()}
    if isinstance(value, list):
        return [_short(value[number]) for number in kept]
    return value


def _summed(counts: Sequence[int], kept: Sequence[int]) -> list[int]:
    """Counts of the intervals up to each point that is kept, since the one before."""
    ends = [*kept[1:], len(counts)]
    return [sum(counts[begin:end]) for begin, end in zip(kept, ends, strict=True)]


def _longest(lives: Sequence[JsonObject], most: int, ended: float) -> list[JsonObject]:
    if len(lives) <= most:
        return list(lives)
    spans = sorted(lives, key=lambda life: life["began"] - (life["ended"] or ended))
    kept = {life["name"] for life in spans[:most]}
    return [life for life in lives if life["name"] in kept]


def _weightiest(timeline: Sequence[JsonObject], most: int) -> list[JsonObject]:
    if len(timeline) <= most:
        return list(timeline)
    weights = {kind: weight for weight, kind in enumerate(_LIGHT)}
    order = sorted(
        range(len(timeline)), key=lambda n: (-weights.get(timeline[n]["kind"], len(_LIGHT)), n)
    )
    return [timeline[number] for number in sorted(order[:most])]


def _rounded(life: JsonObject) -> JsonObject:
    return {name: _short(value) for name, value in life.items()}


def _short(value: Any) -> Any:
    """A number with as many digits as a plot shows."""
    if not isinstance(value, float):
        return value
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short.is_integer() else short


def _in_script(data: JsonObject) -> str:
    """Data as JSON in which no character can end the block, or begin a comment, that it stands in."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _asset(name: str) -> str:
    return (resources.files(__package__) / "static" / name).read_text("utf-8")

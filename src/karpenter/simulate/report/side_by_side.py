"""Reports of whole scenarios side by side: one report, whose variants are those of all of them."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from karpenter.api.meta import JsonObject
from karpenter.simulate.report.comparison import comparison


def side_by_side(reports: Sequence[JsonObject], names: Sequence[str]) -> JsonObject:
    """One report of several, the first of which is the baseline.

    Args:
        reports: of scenarios that last equally long.
        names: what each scenario is called, each once.
    """
    variants = [
        {**variant, "name": _name(name, variant, report["variants"])}
        for name, report in zip(names, reports, strict=True)
        for variant in report["variants"]
    ]
    hosts = [report["host"] for report in reports]
    decisions = sum(sum(each["decisions"]["byKind"].values()) for each in variants)
    processor = sum(host["processorSeconds"] for host in hosts)
    return {
        **reports[0],
        "scenario": {
            **reports[0]["scenario"],
            "name": " | ".join(names),
            "description": "",
            "sha256": _joined([each["scenario"]["sha256"] for each in reports]),
            "demandSha256": _joined([each["scenario"]["demandSha256"] for each in reports]),
            "complete": all(each["scenario"]["complete"] for each in reports),
        },
        "variants": variants,
        "comparison": comparison(variants),
        "warnings": [
            f"{name}: {text}"
            for name, report in zip(names, reports, strict=True)
            for text in report["warnings"]
        ],
        "notModelled": list(dict.fromkeys(t for each in reports for t in each["notModelled"])),
        "host": {
            "wallSeconds": sum(host["wallSeconds"] for host in hosts),
            "processorSeconds": processor,
            "peakBytes": max(host["peakBytes"] for host in hosts),
            "processorSecondsPerDecision": processor / decisions if decisions else None,
        },
    }


def names_of(scenarios: Sequence[str], files: Sequence[str]) -> list[str]:
    """What to call scenarios: by their names, or by their files where two have the same name."""
    counts = Counter(scenarios)
    stems = [PurePath(file).stem for file in files]
    short = stems if len(set(stems)) == len(stems) else files
    chosen = [
        name if counts[name] == 1 else file for name, file in zip(scenarios, short, strict=True)
    ]
    found: list[str] = []
    for number, name in enumerate(chosen, start=1):
        found.append(name if chosen.count(name) == 1 else f"{name} ({number})")
    return found


def _name(scenario: str, variant: Mapping[str, Any], variants: Sequence[object]) -> str:
    return scenario if len(variants) == 1 else f"{scenario}: {variant['name']}"


def _joined(digests: Sequence[str]) -> str:
    """The digest that all have, or one of all of them."""
    if len(set(digests)) == 1:
        return digests[0]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()

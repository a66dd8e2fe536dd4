"""The data files that a scenario names, wherever it does."""

from collections.abc import Iterator

import msgspec

from karpenter.manifests.positions import Path
from karpenter.simulate.scenario.models import (
    Column,
    MetricFile,
    Part,
    PriceFile,
    Replay,
    Rows,
    Scenario,
    Trace,
)


def data_files(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Each field that names a data file, and the name."""
    for path, part in parts(scenario):
        if isinstance(part, MetricFile | Rows | Trace):
            yield (*path, "file"), part.file
        elif isinstance(part, Column | PriceFile):
            yield (*path, "csv"), part.csv


def recordings(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Each field that names the segments of a recording, and the name or pattern."""
    for path, part in parts(scenario):
        if isinstance(part, Replay):
            yield (*path, "file"), part.file


def spread_columns(scenario: Scenario) -> Iterator[tuple[Path, Column]]:
    """The columns of measured amounts of time."""
    for path, part in parts(scenario):
        if isinstance(part, Column):
            yield path, part


def parts(value: object, path: Path = ()) -> Iterator[tuple[Path, Part]]:
    """Every part of a scenario, with the path of its field."""
    if isinstance(value, Part):
        yield path, value
        for each in msgspec.structs.fields(value):
            yield from parts(getattr(value, each.name), (*path, each.encode_name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from parts(item, (*path, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, Part | list):
                yield from parts(item, (*path, key))

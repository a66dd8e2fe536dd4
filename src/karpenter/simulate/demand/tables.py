"""Data files of a scenario: CSV by column, with the line of what is wrong."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from karpenter.model.suggestions import nearest_key
from karpenter.simulate.scenario.models import MetricFile, TimeColumn

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class DataError(ValueError):
    """A data file that cannot be used; the text is one sentence with file and line."""

    def __init__(self, file: str, line: int, problem: str) -> None:
        super().__init__(f"{file}:{line}: {problem}")


@dataclass(frozen=True, slots=True)
class Row:
    """One row, and where it stands."""

    file: str
    line: int
    cells: Mapping[str, str]

    def text(self, column: str) -> str:
        """The cell of a column."""
        return self.cells[column].strip()

    def number(self, column: str) -> float:
        """The number in a column.

        Raises:
            DataError: there is none.
        """
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if value - value != 0:  # not finite
            raise DataError(self.file, self.line, f"{column}: {text!r} is not a number")
        return value

    def time(self, column: TimeColumn) -> float:
        """The seconds that a time stands for, from any fixed beginning.

        Raises:
            DataError: it is no time.
        """
        if column.unit is not None:
            return self.number(column.column) * _UNITS[column.unit]
        text = self.text(column.column)
        try:
            if column.format is not None:
                found = datetime.strptime(text, column.format)  # noqa: DTZ007 made aware below
            elif _is_number(text):
                return float(text)
            else:
                found = datetime.fromisoformat(_whole_microseconds(text))
        except ValueError:
            problem = f"{column.column}: {text!r} is not a time"
            raise DataError(self.file, self.line, problem) from None
        return found.replace(tzinfo=found.tzinfo or UTC).timestamp()


def rows(name: str, data: bytes, columns: Sequence[str]) -> Iterator[Row]:
    """The rows of a CSV file that has these columns.

    Raises:
        DataError: it is no such file.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(name, line, "this is not UTF-8 text") from None
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        header = [cell.strip() for cell in next(reader, [])]
        for column in columns:
            if column not in header:
                near = nearest_key(column, header)
                hint = f"; did you mean {near}?" if near else ""
                raise DataError(name, 1, f"there is no column {column}{hint}")
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                problem = f"the row has {len(cells)} cells, and the header {len(header)}"
                raise DataError(name, reader.line_num, problem)
            yield Row(name, reader.line_num, dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise DataError(name, reader.line_num, f"this is not CSV: {error}") from None


def column_of(name: str, data: bytes, column: str) -> list[float]:
    """The numbers of one column.

    Raises:
        DataError: they cannot be read.
    """
    found = [row.number(column) for row in rows(name, data, [column])]
    if not found:
        raise DataError(name, 1, f"column {column} is empty")
    return found


def buckets(data: bytes, metric: MetricFile, length: float) -> list[float]:
    """The sums of columns over intervals of one length, from the first row on.

    Raises:
        DataError: the file cannot be read.
    """
    columns = [metric.time.column, *metric.sum]
    found: list[float] = []
    first: float | None = None
    for row in rows(metric.file, data, columns):
        moment = row.time(metric.time)
        first = moment if first is None else first
        if moment < first:
            problem = f"{metric.time.column}: the time is before that of the first row"
            raise DataError(metric.file, row.line, problem)
        number = int((moment - first) / length)
        found.extend([0.0] * (number + 1 - len(found)))
        found[number] += sum(row.number(column) for column in metric.sum)
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _whole_microseconds(text: str) -> str:
    """A timestamp with at most six digits of a second, which is what Python reads."""
    whole, dot, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    return f"{whole}{dot}{digits[:6]}{rest[len(digits) :]}" if dot else text

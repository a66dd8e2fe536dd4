"""Tables: lists of objects the way ``kubectl get`` shows them, computed on the server.

Columns of built-in kinds come from ``printing``, those of CRDs from their printer columns. Kinds
without columns of their own show when they were created. Ages are measured at the time given by
the caller.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from karpenter_sandbox.server.printing import cluster, pods, resources, workloads
from karpenter_sandbox.server.printing.jsonpath import JsonPathError, find
from karpenter_sandbox.server.printing.parts import (
    Cells,
    Column,
    JsonObject,
    Printer,
    age,
    at,
    name_of,
    since,
)

_PRINTERS: Final[Mapping[str, Printer]] = {
    "Pod": pods.POD,
    **workloads.PRINTERS,
    **cluster.PRINTERS,
    **resources.PRINTERS,
}
_META: Final = "meta.k8s.io/v1"
_TABLE: Final = {"as": "Table", "g": "meta.k8s.io"}
_VERSIONS: Final = ("v1", "v1beta1")
_INCLUDED: Final = ("None", "Metadata", "Object")


class IncludeError(ValueError):
    """A value of ``includeObject`` that means nothing."""


def wants_table(accept: str) -> bool:
    """Whether an ``Accept`` header asks for a table before plain objects."""
    for choice in accept.split(","):
        media_type, *parameters = (part.strip() for part in choice.split(";"))
        if media_type not in ("application/json", "application/*", "*/*"):
            continue
        asked = dict(parameter.partition("=")[::2] for parameter in parameters)
        is_table = all(asked.get(key) == value for key, value in _TABLE.items())
        return is_table and asked.get("v") in _VERSIONS
    return False


def table(
    objects: Sequence[dict[str, Any]],
    *,
    api_version: str,
    kind: str,
    now: datetime,
    include_object: str = "Metadata",
    list_metadata: Mapping[str, Any] | None = None,
    printer_columns: Sequence[Mapping[str, Any]] | None = None,
    headers: bool = True,
) -> dict[str, Any]:
    """Render objects of one kind.

    Args:
        objects: what becomes the rows.
        api_version: that of the objects.
        kind: that of the objects.
        now: the time ages are measured at.
        include_object: what goes along with each row: ``None``, ``Metadata`` or ``Object``.
        list_metadata: that of the list; without it the table has the version of its only object.
        printer_columns: ``additionalPrinterColumns`` of a CRD; None for built-in kinds.
        headers: whether to describe the columns, which watches do only once.

    Raises:
        IncludeError: ``include_object`` is none of these.
    """
    if include_object not in (*_INCLUDED, ""):
        allowed = "must be 'Metadata', 'Object', 'None', or empty"
        raise IncludeError(f'includeObject: Invalid value: "{include_object}": {allowed}')
    printer = _printer(kind, printer_columns)
    metadata = list_metadata
    if metadata is None:
        version = at(objects[0], "metadata", "resourceVersion") if len(objects) == 1 else None
        metadata = {} if version is None else {"resourceVersion": version}
    return {
        "kind": "Table",
        "apiVersion": _META,
        "metadata": dict(metadata),
        "columnDefinitions": [_definition(c) for c in printer.columns] if headers else None,
        "rows": [_row(obj, printer, kind, now, include_object) for obj in objects],
    }


def _row(
    obj: dict[str, Any], printer: Printer, kind: str, now: datetime, include: str
) -> dict[str, Any]:
    row: dict[str, Any] = {"cells": printer.row(obj, now)}
    if kind == "Pod" and (conditions := pods.completion(obj)):
        row["conditions"] = conditions
    if include == "Object":
        row["object"] = obj
    elif include == "None":
        row["object"] = None
    else:
        metadata = obj.get("metadata", {})
        row["object"] = {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": metadata}
    return row


def _definition(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _printer(kind: str, printer_columns: Sequence[Mapping[str, Any]] | None) -> Printer:
    if printer_columns is None:
        return _PRINTERS.get(kind, _CREATED)
    if not printer_columns:
        return _AGED
    shown = (Column("Name", format="name"), *map(_custom_column, printer_columns))
    cells = [_custom_cell(column) for column in printer_columns]

    def row(obj: JsonObject, now: datetime) -> Cells:
        return [name_of(obj), *(cell(obj, now) for cell in cells)]

    return Printer(shown, row)


def _custom_column(column: Mapping[str, Any]) -> Column:
    return Column(
        name=str(column.get("name", "")),
        type=str(column.get("type", "string")),
        priority=int(column.get("priority") or 0),
        format=str(column.get("format") or ""),
        description=str(column.get("description") or f"the value at {column.get('jsonPath')}"),
    )


def _custom_cell(column: Mapping[str, Any]) -> Callable[[JsonObject, datetime], Any]:
    path, kind = str(column.get("jsonPath", "")), str(column.get("type", "string"))

    def cell(obj: JsonObject, now: datetime) -> Any:
        try:
            found = find(path, obj)
        except JsonPathError:
            return None
        return _shown(found[0], kind, now) if found else None

    return cell


def _shown(value: Any, kind: str, now: datetime) -> Any:
    """A value as a cell of a column's type, or None when it is not of that type."""
    if kind == "string":
        return _text(value)
    if kind == "date":
        return _age_of(value, now)
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if kind == "integer" else float(value)


def _age_of(value: Any, now: datetime) -> str | None:
    if not isinstance(value, str):
        return None
    shown = since(value, now)
    return "<invalid>" if shown == "<unknown>" else shown


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _created(obj: JsonObject, _now: datetime) -> Cells:
    return [name_of(obj), at(obj, "metadata", "creationTimestamp")]


def _aged(obj: JsonObject, now: datetime) -> Cells:
    return [name_of(obj), age(obj, now)]


_CREATED: Final = Printer((Column("Name", format="name"), Column("Created At", "date")), _created)
_AGED: Final = Printer((Column("Name", format="name"), Column("Age", "date")), _aged)

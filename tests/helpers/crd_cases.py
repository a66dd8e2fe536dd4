"""How the tables of CRD cases are written: one change to a small valid object per case.

A refused case names the one field the refusal must point at; without ``at`` it is the field that
was changed.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest
from _pytest.mark.structures import ParameterSet

from karpenter.admission.schemas.crds import builtin_crds
from karpenter.admission.schemas.engine import Admitted, builtin
from karpenter_sandbox.kinds.schema import Schema, crd_schema

ABSENT = object()  # as a value: omit the field


def replaced(obj: Mapping[str, Any], field: str, value: object) -> dict[str, Any]:
    """A copy of ``obj`` with one field, such as ``spec.weight``, set or left out."""
    name, _, rest = field.partition(".")
    copy = dict(obj)
    if rest:
        copy[name] = replaced(copy.get(name, {}), rest, value)
    elif value is ABSENT:
        copy.pop(name, None)
    else:
        copy[name] = value
    return copy


def at_path(obj: Any, field: str) -> Any:
    """What stands in ``field`` of ``obj``."""
    for name in field.split("."):
        obj = obj[name]
    return obj


def case(sentence: str, *values: object, rows: Iterable[str] = ()) -> ParameterSet:
    """One line of a table; ``rows`` are the rows of the conformance ledger it proves."""
    return pytest.param(*values, id=sentence, marks=[pytest.mark.row(row) for row in rows])


def refused(
    sentence: str, field: str, value: object, *, at: str = "", rows: Iterable[str] = ()
) -> ParameterSet:
    return case(sentence, field, value, at or field, rows=rows)


def named_tables(
    tables: Mapping[str, Iterable[ParameterSet]], *, rows: Mapping[str, str] | None = None
) -> list[ParameterSet]:
    """Several tables in one, the name of its table before the values of each case.

    Args:
        rows: by table, the row of the conformance ledger that all its cases prove.
    """
    proved = {name: [pytest.mark.row(row)] for name, row in (rows or {}).items()}
    return [
        pytest.param(
            name,
            *entry.values,
            id=f"{name}-{entry.id}",
            marks=[*entry.marks, *proved.get(name, ())],
        )
        for name, table in tables.items()
        for entry in table
    ]


def values_of(cases: Iterable[ParameterSet]) -> list[Any]:
    """The values of each case of a table, for tests that go over all of it at once."""
    return [entry.values for entry in cases]


def admit(obj: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> Admitted:
    compiled = builtin(obj["apiVersion"], obj["kind"])
    assert compiled is not None
    return compiled.admit(dict(obj), old=None if old is None else dict(old))


def errors_of(obj: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[str]:
    """The errors of an object in one line each; empty when it is accepted."""
    return [str(error) for error in admit(obj, old).errors]


def wrong_fields(obj: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> set[str]:
    """The fields the refusal of an object points at."""
    return {error.field for error in admit(obj, old).errors}


def unproved(
    messages: Iterable[str],
    refusals: Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]],
) -> set[str]:
    """The ``messages`` that no refusal of an object (with its old state, if any) contains."""
    seen = {error.detail for obj, old in refusals for error in admit(obj, old).errors}
    return set(messages) - seen


def columns(crd: str, version: str) -> list[str]:
    """The column heads of ``kubectl get``, those of ``-o wide`` in parentheses."""
    entry = next(e for e in builtin_crds()[crd]["spec"]["versions"] if e["name"] == version)
    return [
        f"({column['name'].upper()})" if column.get("priority") else column["name"].upper()
        for column in entry["additionalPrinterColumns"]
    ]


def versions_of(crd: str) -> list[tuple[str, bool, bool]]:
    """The versions of a CRD, with whether each is served and whether it is the stored one."""
    versions = builtin_crds()[crd]["spec"]["versions"]
    return [(entry["name"], entry["served"], entry["storage"]) for entry in versions]


STRING_SET: Final = {
    "type": "array",
    "items": {"type": "string"},
    "x-kubernetes-list-type": "set",
}


def list_map(*keys: str, **fields: Any) -> dict[str, Any]:
    """The schema of a list whose items are found by these fields of theirs."""
    return {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
        "items": {"type": "object", "properties": fields},
    }


def spec_schema(fields: Mapping[str, Any], **others: Any) -> Schema:
    """The schema of a custom kind whose spec has these fields; ``others`` stand beside the spec."""
    spec = {"type": "object", "properties": fields}
    return crd_schema({"type": "object", "properties": {"spec": spec, **others}})

"""Selector maps of the alpha generation as lists of v1 selector terms.

A map holds one condition per tag, and commas in a value mean "any of"; a term has single values,
so a map becomes one term for every combination of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import Any, Final

from karpenter.admission.errors import ErrorKind, FieldError, FieldWarning, Path
from karpenter.api.meta import JsonObject

ID_KEYS: Final = ("aws-ids", "aws::ids")
NAME_KEY: Final = "aws::name"
OWNERS_KEY: Final = "aws::owners"
MOST_TERMS: Final = 30


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a selector, and the findings of its conversion."""

    terms: list[JsonObject]
    errors: Sequence[FieldError] = ()
    warnings: Sequence[FieldWarning] = ()


def resource_terms(selector: Mapping[str, Any], path: Path) -> Terms:
    """Convert the selector of subnets or security groups found at ``path``."""
    ids = _ids(selector)
    if not ids:
        return _bounded(_tag_choices(selector, ()), path)
    others = [key for key in selector if key not in ids]
    errors = [
        FieldError(
            ErrorKind.FORBIDDEN,
            (*path, key),
            "ids cannot be combined with tags; keep only the ids or only the tags",
        )
        for key in others
    ]
    return _with_errors(_bounded([_choices("id", _all_of(selector, ids))], path), errors)


def image_terms(selector: Mapping[str, Any], path: Path) -> Terms:
    """Convert the selector of machine images found at ``path``."""
    ids = _ids(selector)
    if not ids:
        named = [
            _choices(field, _values(selector[key]))
            for field, key in (("owner", OWNERS_KEY), ("name", NAME_KEY))
            if key in selector
        ]
        return _bounded([*named, *_tag_choices(selector, (NAME_KEY, OWNERS_KEY))], path)
    terms = _bounded([_choices("id", _all_of(selector, ids))], path)
    warnings = [
        FieldWarning(
            (*path, key), "was dropped: a v1 term that names an image id takes nothing else"
        )
        for key in selector
        if key not in ids
    ]
    return Terms(terms.terms, terms.errors, warnings)


def _ids(selector: Mapping[str, Any]) -> list[str]:
    return [key for key in ID_KEYS if key in selector]


def _all_of(selector: Mapping[str, Any], keys: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(value for key in keys for value in _values(selector[key])))


def _values(text: Any) -> list[str]:
    """Split a comma list; one of blanks alone is kept, for the v1 rules to refuse."""
    parts = [part.strip() for part in str(text).split(",")]
    return list(dict.fromkeys(part for part in parts if part)) or [""]


def _choices(field: str, values: Iterable[str]) -> list[JsonObject]:
    return [{field: value} for value in values]


def _tag_choices(selector: Mapping[str, Any], reserved: Sequence[str]) -> list[list[JsonObject]]:
    keys = sorted(key for key in selector if key not in reserved)
    return [[{"tags": {key: value}} for value in _values(selector[key])] for key in keys]


def _bounded(choices: list[list[JsonObject]], path: Path) -> Terms:
    """Combine one choice of each list, never building more terms than v1 takes."""
    count = prod(map(len, choices))
    terms = [_merged(parts) for parts in islice(product(*choices), MOST_TERMS) if parts]
    if count <= MOST_TERMS:
        return Terms(terms)
    too_many = FieldError(
        ErrorKind.TOO_MANY,
        path,
        f"stands for {count} combinations of values, and v1 takes {MOST_TERMS} terms at most; "
        "select by fewer values",
    )
    return Terms(terms, [too_many])


def _merged(parts: Iterable[JsonObject]) -> JsonObject:
    term: JsonObject = {}
    for part in parts:
        for field, value in part.items():
            term[field] = {**term[field], **value} if field in term else value
    return {field: dict(v) if isinstance(v, dict) else v for field, v in term.items()}


def _with_errors(terms: Terms, errors: Sequence[FieldError]) -> Terms:
    return Terms(terms.terms, [*errors, *terms.errors], terms.warnings)

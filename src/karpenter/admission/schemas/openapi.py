"""Value validation: OpenAPI's dialect compiled for ``jsonschema-rs``.

The dialect differs from JSON Schema in ``nullable``, ``exclusiveMinimum`` as a flag, formats of
numbers, patterns in Go's syntax and Kubernetes' own keywords. A valid object costs one pass in
Rust; only an invalid one is traversed again for its errors, which ``wording`` renders in the API
server's wording. Uniqueness within lists is left to ``lists``, rules in CEL to ``cel``.
"""

from collections.abc import Mapping
from typing import Any, Final

import jsonschema_rs

from karpenter.admission.errors import ErrorKind, FieldError, Path
from karpenter.admission.schemas.formats import FORMATS
from karpenter.admission.schemas.patterns import PatternError, compile_go, portable
from karpenter.admission.schemas.schema import EMBEDDED, INT_OR_STRING, Document
from karpenter.admission.schemas.wording import GO_PATTERN, field_errors

# The API server decodes integers into 64 bits whatever the schema
_BOUNDS: Final = {"int32": (-(2**31), 2**31 - 1)}
_WIDEST: Final = (-(2**63), 2**63 - 1)

_SAME: Final = (
    *("enum", "required", "multipleOf", "uniqueItems"),
    *("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"),
)
_INT_OR_STRING_PAIR: Final = ({"type": "integer"}, {"type": "string"})


class ValueSchema:
    """The compiled schema of a whole object."""

    def __init__(self, document: Document, path: Path) -> None:
        """Compile ``document``, which is at ``path`` of its CRD; see ``problems``."""
        self.problems: list[FieldError] = []
        self._written: dict[str, str] = {}
        converted = self._convert(document, path)
        self._validator = None if self.problems else self._compile(converted, path)

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        """List what is wrong with ``obj``.

        Raises:
            ValueError: ``obj`` is nested too deeply or holds what JSON cannot.
        """
        if self._validator is None or self._validator.is_valid(obj):
            return []
        return [
            found
            for error in self._validator.iter_errors(obj)
            for found in field_errors(error, self._written)
        ]

    def _compile(self, converted: dict[str, Any], path: Path) -> jsonschema_rs.Validator | None:
        try:
            return jsonschema_rs.Draft7Validator(
                converted,
                formats=dict(FORMATS),
                validate_formats=True,
                pattern_options=jsonschema_rs.RegexOptions(),
                keywords={GO_PATTERN: _GoPattern},
                offline=True,
            )
        except jsonschema_rs.ValidationError as error:
            where = (*path, *error.instance_path)
            self.problems.append(FieldError(ErrorKind.INVALID, where, error.message))
            return None

    def _convert(self, document: Document, path: Path) -> dict[str, Any]:
        converted = {key: document[key] for key in _SAME if key in document}
        converted |= _types(document)
        converted |= _range(document)
        converted |= self._convert_pattern(document, path)
        if document.get("format") in FORMATS:
            converted["format"] = document["format"]
        converted |= self._convert_parts(document, path)
        converted |= self._convert_combinations(document, path)
        if document.get(EMBEDDED):
            converted["required"] = [*converted.get("required", ()), *_EMBEDDED["required"]]
            converted["properties"] = {**_EMBEDDED["properties"], **converted.get("properties", {})}
        return converted

    def _convert_parts(self, document: Document, path: Path) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        if "properties" in document:
            parts["properties"] = {
                name: self._convert(schema, (*path, "properties", name))
                for name, schema in document["properties"].items()
            }
        for key in ("additionalProperties", "items"):
            if isinstance(document.get(key), Mapping):
                parts[key] = self._convert(document[key], (*path, key))
        return parts

    def _convert_combinations(self, document: Document, path: Path) -> dict[str, Any]:
        combined: dict[str, Any] = {}
        for key in ("allOf", "anyOf", "oneOf"):
            schemas = document.get(key)
            # Generators add an anyOf for int-or-string, which the type expresses already
            if schemas and not (
                document.get(INT_OR_STRING) and tuple(schemas) == _INT_OR_STRING_PAIR
            ):
                combined[key] = [
                    self._convert(schema, (*path, key, index))
                    for index, schema in enumerate(schemas)
                ]
        if "not" in document:
            combined["not"] = self._convert(document["not"], (*path, "not"))
        return combined

    def _convert_pattern(self, document: Document, path: Path) -> dict[str, Any]:
        pattern = document.get("pattern")
        if not isinstance(pattern, str):
            return {}
        try:
            compile_go(pattern)
        except PatternError as error:
            where = (*path, "pattern")
            self.problems.append(FieldError(ErrorKind.INVALID, where, str(error), pattern))
            return {}
        written = portable(pattern)
        if written is None:
            return {GO_PATTERN: pattern}
        self._written[written] = pattern
        return {"pattern": written}


class _GoPattern:
    """The keyword for patterns that the schema library's dialect reads differently than Go's."""

    def __init__(self, parent: dict[str, Any], value: str, path: list[str | int]) -> None:
        self._pattern = compile_go(value)
        self._text = value

    def validate(self, instance: object) -> None:
        if isinstance(instance, str) and not self._pattern.is_in(instance):
            raise ValueError(self._text)


_EMBEDDED: Final[dict[str, Any]] = {
    "required": ["apiVersion", "kind", "metadata"],
    "properties": {
        "apiVersion": {"type": "string", "minLength": 1},
        "kind": {"type": "string", "minLength": 1},
        "metadata": {"type": "object"},
    },
}


def _types(document: Document) -> dict[str, Any]:
    if document.get(INT_OR_STRING):
        types = ["integer", "string"]
    elif "type" in document:
        types = [document["type"]]
    else:
        return {}
    if document.get("nullable"):
        types.append("null")
    return {"type": types if len(types) > 1 else types[0]}


def _range(document: Document) -> dict[str, Any]:
    limits = {}
    for key, flag in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if key in document:
            limits[flag if document.get(flag) is True else key] = document[key]
    if document.get("type") == "integer" or document.get(INT_OR_STRING):
        lowest, highest = _BOUNDS.get(document.get("format", ""), _WIDEST)
        if "minimum" not in limits or limits["minimum"] < lowest:
            limits["minimum"] = lowest
        if "maximum" not in limits or limits["maximum"] > highest:
            limits["maximum"] = highest
    return limits

"""The rules for the metadata of every object, whatever its kind."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from karpenter.admission.errors import ErrorKind, FieldError, Path
from karpenter.admission.schemas.formats import DNS_LABEL, LONGEST_SUBDOMAIN
from karpenter.admission.schemas.wording import json_type
from karpenter.api.meta import ObjectMeta
from karpenter.model.label_rules import label_key_problem, label_value_problem

# Unlike a host name, the name of an object may have parts of more than 63 characters
_PART: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_PART}(\.{_PART})*")
_NAME_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'example.com', regex used for"
    f" validation is '{_NAME.pattern}')"
)
_NAMESPACE_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must"
    " start and end with an alphanumeric character (e.g. 'my-name', regex used for validation is"
    f" '{_PART}')"
)
_MOST_ANNOTATION_BYTES: Final = 256 * 1024
_FEW_CHARACTERS: Final = _MOST_ANNOTATION_BYTES // 4  # within the limit in any UTF-8 encoding


def metadata_errors(obj: Mapping[str, Any]) -> list[FieldError]:
    """List what is wrong with the fields that every object has."""
    return [*identity_errors(obj), *_metadata_errors(obj.get("metadata"))]


def identity_errors(obj: Mapping[str, Any]) -> list[FieldError]:
    """List the errors in an object's apiVersion and kind."""
    errors = []
    for key, example in (("apiVersion", "karpenter.sh/v1"), ("kind", "NodePool")):
        value = obj.get(key)
        if value is None or value == "":
            detail = f"every object says its {key}, such as {example}"
            errors.append(FieldError(ErrorKind.REQUIRED, (key,), detail))
        elif not isinstance(value, str):
            errors.append(_wrong_type((key,), "string", value))
    return errors


class ValidMetadata:
    """The fast path for metadata without errors; parts that many objects share are cached."""

    def __init__(self) -> None:
        self._labels: set[tuple[str, str]] = set()
        self._annotations: set[str] = set()
        self._others: set[tuple[str, str, tuple[str, ...]]] = set()

    def includes(self, metadata: ObjectMeta) -> bool:
        """Whether metadata is certainly valid; False means that it has to be checked in full."""
        name, annotations = metadata.name, metadata.annotations
        if not name or len(name) > LONGEST_SUBDOMAIN or not _NAME.fullmatch(name):
            return False
        if not self.labels(metadata.labels):
            return False
        others = (metadata.generate_name, metadata.namespace, metadata.finalizers)
        return (others in self._others or self._learn_others(metadata)) and (
            not annotations or self._are_annotations(annotations)
        )

    def labels(self, labels: Mapping[str, Any]) -> bool:
        """Whether labels are valid, of an object or of a template."""
        if not self._labels.issuperset(labels.items()):
            if any(_map_errors(labels, (), _label_errors)):
                return False
            self._labels.update(labels.items())
        return True

    def _are_annotations(self, annotations: Mapping[str, str]) -> bool:
        if sum(map(len, annotations.values())) + sum(map(len, annotations)) > _FEW_CHARACTERS:
            return False
        if not self._annotations.issuperset(annotations):
            if any(_map_errors(annotations, (), _annotation_errors)):
                return False
            self._annotations.update(annotations)
        return True

    def _learn_others(self, metadata: ObjectMeta) -> bool:
        """Check and cache the other fields that pods of a workload share."""
        prefix, namespace, finalizers = others = (
            metadata.generate_name,
            metadata.namespace,
            metadata.finalizers,
        )
        plain = {"name": "x", "generateName": prefix, "namespace": namespace}
        if any(_name_errors(plain, ())) or any(_finalizer_errors(list(finalizers), ())):
            return False
        self._others.add(others)
        return True


def _metadata_errors(metadata: object) -> Iterator[FieldError]:
    path: Path = ("metadata",)
    if metadata is None:
        yield FieldError(ErrorKind.REQUIRED, (*path, "name"), "name or generateName is required")
        return
    if not isinstance(metadata, dict):
        yield _wrong_type(path, "object", metadata)
        return
    yield from _name_errors(metadata, path)
    yield from _map_errors(metadata.get("labels"), (*path, "labels"), _label_errors)
    yield from _map_errors(metadata.get("annotations"), (*path, "annotations"), _annotation_errors)
    yield from _annotation_size_errors(metadata.get("annotations"), (*path, "annotations"))
    yield from _finalizer_errors(metadata.get("finalizers"), (*path, "finalizers"))


def _name_errors(metadata: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    wrong_types = [
        _wrong_type((*path, key), "string", metadata[key])
        for key in ("name", "generateName", "namespace")
        if not isinstance(metadata.get(key) or "", str)
    ]
    yield from wrong_types
    if wrong_types:
        return
    name = metadata.get("name") or ""
    prefix = metadata.get("generateName") or ""
    if not name and not prefix:
        yield FieldError(ErrorKind.REQUIRED, (*path, "name"), "name or generateName is required")
    if name:
        yield from _subdomain_errors(name, name, (*path, "name"))
    if prefix:
        # A prefix may end in a dash, because more characters follow
        yield from _subdomain_errors(prefix, re.sub("-+$", "a", prefix), (*path, "generateName"))
    namespace = metadata.get("namespace") or ""
    if namespace and not DNS_LABEL.fullmatch(namespace):
        yield FieldError(ErrorKind.INVALID, (*path, "namespace"), _NAMESPACE_RULE, namespace)


def _subdomain_errors(shown: str, name: str, path: Path) -> Iterator[FieldError]:
    if len(name) > LONGEST_SUBDOMAIN:
        detail = f"must be no more than {LONGEST_SUBDOMAIN} characters"
        yield FieldError(ErrorKind.INVALID, path, detail, shown)
    if not _NAME.fullmatch(name):
        yield FieldError(ErrorKind.INVALID, path, _NAME_RULE, shown)


def _map_errors(
    value: object, path: Path, entry_errors: Callable[[str, str, Path], Iterator[FieldError]]
) -> Iterator[FieldError]:
    if value is None:
        return
    if not isinstance(value, dict):
        yield _wrong_type(path, "object", value)
        return
    for key, text in value.items():
        if not isinstance(key, str):
            yield FieldError(
                ErrorKind.INVALID, (*path, str(key)), "a key must be a string; write it in quotes"
            )
        elif not isinstance(text, str):
            detail = f"must be a string, not {json_type(text)}; write it in quotes"
            yield FieldError(ErrorKind.TYPE_INVALID, (*path, key), detail, text)
        else:
            yield from entry_errors(key, text, (*path, key))


def _label_errors(key: str, value: str, path: Path) -> Iterator[FieldError]:
    problem = label_key_problem(key)
    if problem:
        yield FieldError(ErrorKind.INVALID, path, f"a label key {problem}", key)
    problem = label_value_problem(value)
    if problem:
        yield FieldError(ErrorKind.INVALID, path, f"a label value {problem}", value)


def _annotation_errors(key: str, _value: str, path: Path) -> Iterator[FieldError]:
    # The API server accepts upper case in the prefix of an annotation
    problem = label_key_problem(key.lower())
    if problem:
        yield FieldError(ErrorKind.INVALID, path, f"an annotation key {problem}", key)


def _annotation_size_errors(value: object, path: Path) -> Iterator[FieldError]:
    if not isinstance(value, dict):
        return
    total = sum(
        len(text.encode(errors="surrogatepass"))
        for entry in value.items()
        for text in entry
        if isinstance(text, str)
    )
    if total > _MOST_ANNOTATION_BYTES:
        detail = f"may not be more than {_MOST_ANNOTATION_BYTES} bytes"
        yield FieldError(ErrorKind.TOO_LONG, path, detail)


def _finalizer_errors(value: object, path: Path) -> Iterator[FieldError]:
    if value is None:
        return
    if not isinstance(value, list):
        yield _wrong_type(path, "array", value)
        return
    for index, name in enumerate(value):
        if not isinstance(name, str):
            yield _wrong_type((*path, index), "string", name)
        elif problem := label_key_problem(name):
            yield FieldError(ErrorKind.INVALID, (*path, index), f"a finalizer {problem}", name)


def _wrong_type(path: Path, wanted: str, value: object) -> FieldError:
    return FieldError(ErrorKind.TYPE_INVALID, path, f"must be of type {wanted}", json_type(value))

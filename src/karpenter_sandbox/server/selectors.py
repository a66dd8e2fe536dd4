"""Label and field selectors, in the grammar that clients put in query strings."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.kinds.validation.grammar import label_key, label_value
from karpenter_sandbox.matching import Requirement
from karpenter_sandbox.status import ApiError, bad_request

Predicate = Callable[[JsonObject], bool]

_TOKEN: Final = re.compile(r"\s*(==|!=|=|!|<|>|\(|\)|,|[^\s=!<>(),]+)")
_WORDS: Final = frozenset({"in", "notin"})
_SIGNS: Final = frozenset({"=", "==", "!=", "<", ">", "!", "(", ")", ","})

# Fields besides name and namespace that lists of a kind may be narrowed by
_POD: Final = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)
_INVOLVED: Final = (
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
)
SELECTABLE: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "Pod"): _POD,
    ("", "Node"): ("spec.unschedulable",),
    ("", "Namespace"): ("status.phase",),
    ("", "Secret"): ("type",),
    ("", "Service"): ("spec.clusterIP", "spec.type"),
    ("", "ReplicationController"): ("status.replicas",),
    ("", "Event"): (
        *(f"involvedObject.{name}" for name in _INVOLVED),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    ("events.k8s.io", "Event"): (
        *(f"regarding.{name}" for name in _INVOLVED),
        "reason",
        "reportingController",
        "type",
    ),
    ("apps", "ReplicaSet"): ("status.replicas",),
    ("batch", "Job"): ("status.successful",),
    ("certificates.k8s.io", "CertificateSigningRequest"): ("spec.signerName",),
    ("resource.k8s.io", "ResourceSlice"): ("spec.nodeName", "spec.driver"),
}
_EVERY_KIND: Final = ("metadata.name", "metadata.namespace")
# Names of fields that differ from where the value is kept
_KEPT_AT: Final = {"source": "source.component", "status.successful": "status.succeeded"}
# What an absent field counts as
_WHEN_ABSENT: Final = {
    "spec.unschedulable": "false",
    "spec.hostNetwork": "false",
    "status.replicas": "0",
    "status.successful": "0",
}


def label_predicate(text: str) -> Predicate | None:
    """Compile a label selector; None when it means everything.

    Raises:
        ApiError: the text is not a label selector.
    """
    requirements = parse_labels(text)
    if not requirements:
        return None

    def matches(obj: JsonObject) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(requirement.holds(labels) for requirement in requirements)

    return matches


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Read a label selector."""
    try:
        return tuple(_Parser(text).requirements())
    except ValueError as error:
        raise bad_request(str(error)) from error


def field_predicate(text: str, resource: Resource) -> Predicate | None:
    """Compile a field selector; None when it means everything.

    Raises:
        ApiError: the text is not a field selector, or the kind cannot be selected by a field.
    """
    terms = []
    own = SELECTABLE.get((resource.group, resource.kind), resource.selectable_fields)
    allowed = (*_EVERY_KIND, *own)
    for name, operator, value in _field_terms(text):
        if name not in allowed:
            raise _unknown_field(name, resource)
        terms.append((_reader(name), operator != "!=", value))
    if not terms:
        return None

    def matches(obj: JsonObject) -> bool:
        return all((read(obj) == value) is wanted for read, wanted, value in terms)

    return matches


def _unknown_field(name: str, resource: Resource) -> ApiError:
    if resource.custom is not None or (resource.group, resource.kind) in SELECTABLE:
        return bad_request(f"field label not supported: {name}")
    known = ", ".join(f'"{each}"' for each in _EVERY_KIND)
    return bad_request(f'"{name}" is not a known field selector: only {known}')


def exact_name(text: str) -> str | None:
    """The name a field selector pins, when it does nothing else."""
    terms = list(_field_terms(text))
    if len(terms) == 1 and terms[0][0] == "metadata.name" and terms[0][1] != "!=":
        return terms[0][2]
    return None


def _field_terms(text: str) -> Iterator[tuple[str, str, str]]:
    for term in re.split(r"(?<!\\),", text):
        if not term:
            continue
        match = re.fullmatch(r"((?:[^=!\\]|\\.)*)(!=|==|=)(.*)", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        name, operator, value = match.groups()
        yield name, operator, re.sub(r"\\(.)", r"\1", value)


def _reader(name: str) -> Callable[[JsonObject], str]:
    path = _KEPT_AT.get(name, name).split(".")
    absent = _WHEN_ABSENT.get(name, "")

    def read(obj: JsonObject) -> str:
        value: Any = obj
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        if value is None:
            return absent
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    return read


class _Parser:
    """Reads ``a=b,c in (d,e),!f`` from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens = self._split(text)
        self._at = 0

    @staticmethod
    def _split(text: str) -> list[str]:
        tokens, position = [], 0
        text = text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise ValueError(f"found '{text[position:]}', expected: identifier")
            tokens.append(match[1])
            position = match.end()
        return tokens

    def requirements(self) -> Iterator[Requirement]:
        if self._peek() in _SIGNS - {"!"}:
            raise ValueError(f"found '{self._peek()}', expected: !, identifier, or 'end of string'")
        while self._peek():
            yield self._readable_requirement()
            if not self._peek():
                return
            separator = self._next()
            if separator != ",":
                raise ValueError(f"found '{separator}', expected: ',' or 'end of string'")
            if not self._peek() or self._peek() in _SIGNS - {"!"}:
                raise ValueError(f"found '{self._peek()}', expected: identifier after ','")

    def _readable_requirement(self) -> Requirement:
        try:
            return self._requirement()
        except ValueError as error:
            raise ValueError(f"unable to parse requirement: {error}") from error

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._next()
            return Requirement(self._key(), "DoesNotExist", ())
        key = self._key()
        operator = self._peek()
        if operator in {"", ","}:
            return Requirement(key, "Exists", ())
        self._next()
        match operator:
            case "=" | "==":
                return Requirement(key, "In", (self._value(key),))
            case "!=":
                return Requirement(key, "NotIn", (self._value(key),))
            case "in" | "notin":
                return Requirement(key, "In" if operator == "in" else "NotIn", self._values(key))
            case "<" | ">":
                return Requirement(key, "Gt" if operator == ">" else "Lt", (self._integer(),))
        expected = "in, notin, =, ==, !=, gt, lt"
        raise ValueError(f"found '{operator}', expected: {expected}")

    def _key(self) -> str:
        key = self._next()
        if not key or key in _SIGNS:
            raise ValueError(f"found '{key}', expected: identifier")
        if problems := label_key(key):
            raise ValueError(f'<nil>: Invalid value: "{key}": {"; ".join(problems)}')
        return key

    def _value(self, key: str) -> str:
        value = self._peek()
        if value in {"", ","}:
            return ""
        self._next()
        if value in _SIGNS:
            raise ValueError(f"found '{value}', expected: identifier")
        _check_value(key, value)
        return value

    def _values(self, key: str) -> tuple[str, ...]:
        opening = self._next()
        if opening != "(":
            raise ValueError(f"found '{opening}' expected: '('")
        values = [""]
        while True:
            word = self._next()
            if word == ")":
                return tuple(dict.fromkeys(values))
            if word == ",":
                values.append("")
            elif not word or word in _SIGNS or values[-1]:
                raise ValueError(f"found '{word}', expected: ',' or ')'")
            else:
                _check_value(key, word)
                values[-1] = word

    def _integer(self) -> str:
        value = self._next()
        if not re.fullmatch(r"-?\d+", value):
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise ValueError(f'values[0]: Invalid value: "{value}": {detail}')
        return value

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token


def _check_value(key: str, value: str) -> None:
    if problems := label_value(value):
        raise ValueError(f'values[0][{key}]: Invalid value: "{value}": {"; ".join(problems)}')


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A ``LabelSelector`` object in the grammar of query strings."""
    if selector is None:
        return ""
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or []:
        key, values = expression["key"], ",".join(sorted(expression.get("values") or []))
        match expression["operator"]:
            case "In":
                terms.append(f"{key} in ({values})")
            case "NotIn":
                terms.append(f"{key} notin ({values})")
            case "Exists":
                terms.append(key)
            case _:
                terms.append(f"!{key}")
    return ",".join(sorted(terms, key=lambda term: term.lstrip("!")))

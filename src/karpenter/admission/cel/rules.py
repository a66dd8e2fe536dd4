"""Rules in CEL (``x-kubernetes-validations``), compiled once per CRD version.

``self`` is the value the rule applies to, ``oldSelf`` what it was before the update. A rule that
mentions ``oldSelf`` runs only on updates and only where the old value is known: items of a list
are correlated between the old object and the new one only in lists of type map. All rules at one
place share one conversion of the value.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from typing import Any, Final

import msgspec

from karpenter.admission.cel.expression import (
    NO_OVERLOAD,
    Expression,
    ExpressionError,
    Fields,
    Functions,
    compile_expression,
    merge_fields,
)
from karpenter.admission.cel.runtime import EVALUATION_ERRORS, Context, OptionalValue
from karpenter.admission.cel.values import Shape, shape_of
from karpenter.admission.errors import NO_VALUE, ErrorKind, FieldError, Path, is_below
from karpenter.admission.schemas.lists import item_key
from karpenter.admission.schemas.schema import RULES, Document, Node

_REASONS: Final = {
    "": ErrorKind.INVALID,
    "FieldValueInvalid": ErrorKind.INVALID,
    "FieldValueForbidden": ErrorKind.FORBIDDEN,
    "FieldValueRequired": ErrorKind.REQUIRED,
    "FieldValueDuplicate": ErrorKind.DUPLICATE,
}
_FIELD_PATH: Final = re.compile(r"""(?:\.[A-Za-z_][\w-]*|\['[^']+'\]|\["[^"]+"\])+""", re.ASCII)
_FIELD_NAME: Final = re.compile(r"""\.([A-Za-z_][\w-]*)|\['([^']+)'\]|\["([^"]+)"\]""", re.ASCII)


class _Absent(Enum):
    ABSENT = "absent"


_ABSENT: Final = _Absent.ABSENT
_MOST_KEPT: Final = 8192  # parts of objects that are known to keep the rules
_DIGEST_SIZE: Final = 16


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule and its message."""

    condition: Expression
    message: str
    message_expression: Expression | None
    field_path: Path
    kind: ErrorKind
    is_old_optional: bool

    @property
    def needs_old(self) -> bool:
        """Whether the rule is a transition rule, which does not run on creation."""
        return "oldSelf" in self.condition.variables and not self.is_old_optional

    def reads(self, variable: str) -> Fields | None:
        """Which fields of ``variable`` the rule reads."""
        fields = self.condition.reads(variable)
        if self.message_expression is not None:
            fields = merge_fields(fields, self.message_expression.reads(variable))
        return fields


@dataclass(frozen=True, slots=True)
class RuleTree:
    """The rules at one place of a schema and in the branches below it that have any."""

    node: Node
    shape: Shape
    rules: tuple[Rule, ...] = ()
    reads_self: Fields | None = None
    reads_old: Fields | None = None
    properties: Mapping[str, "RuleTree"] = field(default_factory=dict)
    values: "RuleTree | None" = None
    items: "RuleTree | None" = None

    def __iter__(self) -> Iterator[Rule]:
        """All rules, here and below."""
        yield from self.rules
        below = (*self.properties.values(), self.values, self.items)
        for tree in below:
            if tree is not None:
                yield from tree


class RuleSet:
    """All rules of one version of a kind.

    Most updates change the status or the metadata of an object alone. So an API server may have it
    remembered which top-level parts, such as a ``spec`` with the one before the update, broke no
    rule: the rules see nothing else, so they would not now.
    """

    def __init__(self, node: Node, path: Path) -> None:
        """Compile the rules below ``node``, which stands at ``path`` of its CRD."""
        self.problems: list[FieldError] = []
        self.tree = self._read(node, path, is_followed=True)
        self.rules = tuple(self.tree) if self.tree is not None else ()
        self._functions = sorted({name for rule in self.rules for name in _functions_of(rule)})
        self._kept: set[bytes] = set()  # digests of parts of objects that keep all rules

    def errors(
        self,
        obj: Mapping[str, Any],
        old: Mapping[str, Any] | None,
        found: Collection[FieldError],
        *,
        is_ascii: bool,
        remembers: bool = False,
    ) -> list[FieldError]:
        """List the rules that ``obj`` breaks.

        Args:
            obj: the object, pruned and defaulted.
            old: the object before an update.
            found: errors of the schema; rules that read such a value are skipped.
            is_ascii: whether all texts of both are plain ASCII.
            remembers: pass over parts that broke no rule before, and remember those that do not.
        """
        if self.tree is None:
            return []
        blocked = [error.path for error in found if error.kind.concerns_shape]
        round_ = _Round(Functions(self._functions), blocked, is_ascii=is_ascii)
        digests = self._digests(obj, old, is_ascii) if remembers and not blocked else {}
        round_.passed_over = {name for name, each in digests.items() if each in self._kept}
        round_.visit(self.tree, obj, _ABSENT if old is None else old, ())
        if not round_.errors:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept.update(digests.values())
        return round_.errors

    def _digests(
        self, obj: Mapping[str, Any], old: Mapping[str, Any] | None, is_ascii: bool
    ) -> dict[str, bytes]:
        """What the rules of each top-level part depend on."""
        assert self.tree is not None
        found = {}
        for name in self.tree.properties:
            if name in obj:
                before = [old[name]] if old is not None and name in old else []
                part = msgspec.json.encode((name, obj[name], before, is_ascii))
                found[name] = blake2b(part, digest_size=_DIGEST_SIZE).digest()
        return found

    def _read(self, node: Node, path: Path, *, is_followed: bool) -> RuleTree | None:
        rules = tuple(
            rule
            for index, document in enumerate(node.rules)
            if (rule := self._compile(document, (*path, RULES, index), is_followed=is_followed))
        )
        properties = {
            name: tree
            for name, child in node.properties.items()
            if (tree := self._read(child, (*path, "properties", name), is_followed=is_followed))
        }
        values = items = None
        if node.values is not None:
            below = (*path, "additionalProperties")
            values = self._read(node.values, below, is_followed=is_followed)
        if node.items is not None:
            is_item_followed = is_followed and node.list_type == "map"
            items = self._read(node.items, (*path, "items"), is_followed=is_item_followed)
        if not (rules or properties or values or items):
            return None
        reads_self: Fields | None = {}
        reads_old: Fields | None = {}
        for rule in rules:
            reads_self = merge_fields(reads_self, rule.reads("self"))
            reads_old = merge_fields(reads_old, rule.reads("oldSelf"))
        shape = shape_of(node) if rules else Shape(is_plain=True)
        return RuleTree(node, shape, rules, reads_self, reads_old, properties, values, items)

    def _compile(self, document: Document, path: Path, *, is_followed: bool) -> Rule | None:
        known = len(self.problems)
        condition = self._expression(document, "rule", path)
        message = self._expression(document, "messageExpression", path)
        kind = _REASONS.get(str(document.get("reason", "")))
        if kind is None:
            names = ", ".join(f'"{name}"' for name in _REASONS if name)
            self._report("reason", path, f"supported values: {names}", document["reason"])
        field_path = document.get("fieldPath") or ""
        if field_path and not _FIELD_PATH.fullmatch(field_path):
            self._report("fieldPath", path, "must be a path such as .spec.name", field_path)
        if condition is not None and "oldSelf" in condition.variables and not is_followed:
            detail = "oldSelf cannot be used inside a list whose items have no keys"
            self._report("rule", path, detail, condition.source)
        if condition is None or kind is None or len(self.problems) > known:
            return None
        return Rule(
            condition=condition,
            message=str(document.get("message") or "").strip(),
            message_expression=message,
            field_path=tuple(
                next(filter(None, match.groups())) for match in _FIELD_NAME.finditer(field_path)
            ),
            kind=kind,
            is_old_optional=document.get("optionalOldSelf") is True,
        )

    def _expression(self, document: Document, key: str, path: Path) -> Expression | None:
        source = str(document.get(key) or "").strip()
        if not source:
            if key == "rule":
                self._report(key, path, "must not be empty", "")
            return None
        try:
            return compile_expression(source, ("self", "oldSelf"))
        except ExpressionError as error:
            self._report(key, path, f"compilation failed: {error}", source)
            return None

    def _report(self, key: str, path: Path, detail: str, value: object) -> None:
        self.problems.append(FieldError(ErrorKind.INVALID, (*path, key), detail, value))


class _Round:
    """One evaluation of all rules on one object."""

    def __init__(self, functions: Functions, blocked: list[Path], *, is_ascii: bool) -> None:
        self.errors: list[FieldError] = []
        self.passed_over: set[str] = set()  # top-level parts whose rules are known to hold
        self._functions = functions
        self._blocked = blocked
        self._is_ascii = is_ascii

    def visit(self, tree: RuleTree, value: Any, old: Any, path: Path) -> None:
        if value is None:
            return
        if tree.rules and not self._is_blocked(path):
            self._apply(tree, value, _ABSENT if old is None else old, path)
        if isinstance(value, dict):
            self._visit_fields(tree, value, old if isinstance(old, dict) else {}, path)
        elif isinstance(value, list) and tree.items is not None:
            self._visit_items(tree.node, tree.items, value, old, path)

    def _visit_fields(
        self, tree: RuleTree, value: dict[str, Any], old: dict[str, Any], path: Path
    ) -> None:
        for name, below in tree.properties.items():
            if name in value and not (name in self.passed_over and not path):
                self.visit(below, value[name], old.get(name, _ABSENT), (*path, name))
        if tree.values is not None:
            for name, part in value.items():
                self.visit(tree.values, part, old.get(name, _ABSENT), (*path, name))

    def _visit_items(
        self, node: Node, tree: RuleTree, value: list[Any], old: Any, path: Path
    ) -> None:
        earlier = {}
        if node.list_type == "map" and isinstance(old, list):
            earlier = {item_key(node, item): item for item in old}
        for index, item in enumerate(value):
            before = earlier.get(item_key(node, item), _ABSENT) if earlier else _ABSENT
            self.visit(tree, item, before, (*path, index))

    def _is_blocked(self, path: Path) -> bool:
        return any(is_below(other, path) or is_below(path, other) for other in self._blocked)

    def _apply(self, tree: RuleTree, value: Any, old: Any, path: Path) -> None:
        context = Context(functions=self._functions.by_name)
        context.add_variable("self", tree.shape.hand_over(value, tree.reads_self))
        has_old = old is not _ABSENT
        before = tree.shape.hand_over(old, tree.reads_old) if has_old else None
        for rule in tree.rules:
            if rule.needs_old and not has_old:
                continue
            if rule.is_old_optional:
                optional = OptionalValue.of(before) if has_old else OptionalValue.none()
                context.add_variable("oldSelf", optional)
            elif rule.needs_old:
                context.add_variable("oldSelf", before)
            problem = self._problem(rule, context)
            if problem:
                self.errors.append(_field_error(rule, problem, value, path))

    def _problem(self, rule: Rule, context: Context) -> str | None:
        """Why the rule does not hold, or None when it does."""
        self._functions.forget()
        try:
            outcome = rule.condition.run(context, is_ascii=self._is_ascii)
        except EVALUATION_ERRORS as error:
            reason = self._functions.explain(error)
            rule_text = rule.message or f"failed rule: {rule.condition.source}"
            if reason == NO_OVERLOAD:
                return (
                    f"'{reason}': call arguments did not match a supported operator, function"
                    f" or macro signature for rule: {rule_text}"
                )
            return f"{reason} evaluating rule: {rule_text}"
        if outcome is True:
            return None
        return self._message(rule, context)

    def _message(self, rule: Rule, context: Context) -> str:
        fallback = rule.message or f"failed rule: {rule.condition.source}"
        if rule.message_expression is None:
            return fallback
        try:
            message = rule.message_expression.run(context, is_ascii=self._is_ascii)
        except EVALUATION_ERRORS:
            return fallback
        return message.strip() if isinstance(message, str) and message.strip() else fallback


def _functions_of(rule: Rule) -> frozenset[str]:
    if rule.message_expression is None:
        return rule.condition.functions
    return rule.condition.functions | rule.message_expression.functions


def _field_error(rule: Rule, detail: str, value: Any, path: Path) -> FieldError:
    """The error of a broken rule; the value is shown where it is short, as by the API server."""
    is_shown = rule.kind in (ErrorKind.INVALID, ErrorKind.DUPLICATE)
    is_shown = is_shown and not isinstance(value, dict | list)
    message = "" if rule.kind is ErrorKind.DUPLICATE else detail
    return FieldError(
        rule.kind, (*path, *rule.field_path), message, value if is_shown else NO_VALUE
    )

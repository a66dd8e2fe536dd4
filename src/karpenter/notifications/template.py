"""Templates of messages: text with ``{{ field }}``, where a field is one of a decision record.

There is nothing else: no expressions, no filters, no access to anything but the fields that are
listed here. A template is checked when it is read.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from karpenter.decision_log.record import DecisionRecord

_HOLE: Final = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")

FIELDS: Final[Mapping[str, Callable[[DecisionRecord], str]]] = {
    "id": lambda record: record.id,
    "at": lambda record: record.at,
    "kind": lambda record: record.kind.value,
    "source": lambda record: record.source.value,
    "reason": lambda record: record.reason,
    "severity": lambda record: record.severity.value,
    "outcome": lambda record: record.outcome.value,
    "text": lambda record: record.text,
    "object": lambda record: record.subject,
    "objects": lambda record: ", ".join(record.objects),
    "nodePool": lambda record: record.node_pools[0] if record.node_pools else "",
    "nodePools": lambda record: ", ".join(record.node_pools),
    "pods": lambda record: str(record.pods),
    "savingsHourly": lambda record: _amount(record.savings_hourly),
    "isEstimate": lambda record: "true" if record.is_estimate else "false",
    "command": lambda record: record.command or "",
}


class TemplateError(ValueError):
    """A template that cannot be used; the text is a part of a sentence."""


@dataclass(frozen=True, slots=True)
class Template:
    """A template, taken apart."""

    parts: tuple[str, ...]  # literal text, name of a field, literal text, …

    def render(
        self, record: DecisionRecord, escape: Callable[[str], str] = lambda text: text
    ) -> str:
        """The text for a record; what comes from the record is escaped, the template is not."""
        return "".join(
            escape(FIELDS[part](record)) if number % 2 else part
            for number, part in enumerate(self.parts)
        )


def parse_template(text: str) -> Template:
    """Take a template apart.

    Raises:
        TemplateError: it names what is no field, or a brace is not closed.
    """
    parts = _HOLE.split(text)
    for literal in parts[::2]:
        if "{{" in literal or "}}" in literal:
            raise TemplateError("{{ and }} must enclose one field of the record")
    for name in parts[1::2]:
        if name not in FIELDS:
            near = difflib.get_close_matches(name, FIELDS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(FIELDS)}"
            raise TemplateError(f"{name!r} is no field of a record; {hint}")
    return Template(tuple(parts))


def _amount(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"

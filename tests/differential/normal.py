"""Answers without what may differ between two clusters that behave the same.

Identities, times, versions, addresses and random names become placeholders. Everything else stays,
managed fields included, so that a difference that matters cannot hide.
"""

import re
from typing import Any, Final

# The letters of generated names; no word of the operations consists of them alone
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
_RULES: Final = tuple(
    (re.compile(pattern), placeholder)
    for pattern, placeholder in (
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uid>"),
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "<time>"),
        (rf"(?<=pod-template-hash=)[{_SAFE}]+", "<hash>"),
        (r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} [\d:]{8} [+-]\d{4}", "<time>"),
        (r"(?<=[\w>]\.)[0-9a-f]{16}\b", "<event>"),
        (r"\bdefault-scheduler-[\w.-]+", "default-scheduler-<host>"),
        (rf"-[{_SAFE}]{{6,10}}(?=-[{_SAFE}]{{5}}\b)", "-<hash>"),
        (rf"-[{_SAFE}]{{5}}\b", "-<name>"),
        (rf"-[{_SAFE}]{{7,10}}\b", "-<hash>"),
        (r"\b10\.96\.\d+\.\d+\b", "<cluster-ip>"),
        (r"https?://127\.0\.0\.1:\d+(?:/[\w-]{32}(?=/|\b))?", "<server>"),
        (r"\b127\.0\.0\.1:\d+\b", "<address>"),
        (r"(?<=in record )\(\d+\)|(?<=, current: )\d+", "<resourceVersion>"),
    )
)
_AGE: Final = re.compile(
    r"(?:\d+[ydhms]){1,2}(?: ago| \(x\d+ over \w+\))?|<invalid>|<unknown>|just now"
)
_VERSION_KEYS: Final = frozenset({"resourceVersion", "continue"})
_HASH_LABELS: Final = frozenset({"pod-template-hash", "controller-revision-hash"})
_PORT_KEYS: Final = frozenset({"nodePort", "healthCheckNodePort"})


def normal(value: Any) -> Any:
    """A JSON-like value with placeholders for what is free to differ."""
    if isinstance(value, dict):
        return {normal_text(key): _field(key, each) for key, each in value.items()}
    if isinstance(value, list):
        return [normal(each) for each in value]
    return normal_text(value) if isinstance(value, str) else value


def normal_text(text: str) -> str:
    """A text with placeholders for what is free to differ."""
    for pattern, placeholder in _RULES:
        text = pattern.sub(placeholder, text)
    return text


def normal_lines(text: str) -> list[list[str]]:
    """The cells of each line that kubectl prints; how wide columns are is left out."""
    return [_line(line) for line in text.splitlines()]


def without_order(body: Any) -> Any:
    """A ``Status`` whose causes, and the message that lists them, come in any order."""
    details = body.get("details") if isinstance(body, dict) else None
    if not isinstance(details, dict) or not details.get("causes"):
        return body
    causes = details["causes"]
    listed = ", ".join(f"{cause['field']}: {cause['message']}" for cause in causes)
    message = body["message"].replace(f"[{listed}]", "[<causes>]")
    causes = sorted(causes, key=str)
    return {**body, "message": message, "details": {**details, "causes": causes}}


def _line(line: str) -> list[str]:
    cells = [_cell(cell) for cell in re.split(r"\s{2,}|\t", line.strip())]
    return [cells[0], "<resourceVersion>"] if cells[0] == "Resource Version:" else cells


def _cell(cell: str) -> str:
    return "<age>" if _AGE.fullmatch(cell) else normal_text(cell)


def _causes(causes: list[Any]) -> list[Any]:
    """Causes without repetitions, which depend on how often a server checks what.

    Conflicts of server-side apply come in no particular order.
    """
    distinct = [each for index, each in enumerate(causes) if each not in causes[:index]]
    if all(each.get("reason") == "FieldManagerConflict" for each in distinct):
        return sorted(distinct, key=str)
    return distinct


def _field(key: str, value: Any) -> Any:
    if key in _VERSION_KEYS and isinstance(value, str) and value:
        return f"<{key}>"
    if key in _HASH_LABELS and isinstance(value, str):
        return "<hash>"
    if key in _PORT_KEYS and value:
        return "<port>"
    if key == "cells" and isinstance(value, list):
        return [_cell(each) if isinstance(each, str) else normal(each) for each in value]
    if key == "causes" and isinstance(value, list):
        return _causes(normal(value))
    if key == "managedFields" and isinstance(value, list):
        return sorted(normal(value), key=lambda entry: str(sorted(entry.items(), key=str)))
    return normal(value)

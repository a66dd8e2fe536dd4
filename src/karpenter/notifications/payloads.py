"""Messages as sinks take them: CloudEvents, Slack's blocks, and signatures; pure.

Text of the cluster is never trusted: for Slack it is escaped, stripped of markup and mentions, and
truncated.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from karpenter.decision_log.record import DecisionRecord
from karpenter.notifications.outbox import Message
from karpenter.notifications.template import Template, parse_template

CLOUD_EVENTS: Final = "application/cloudevents+json; charset=utf-8"
JSON: Final = "application/json; charset=utf-8"
SIGNATURE: Final = "Karpenter-Signature"
SLACK_CHARACTERS: Final = 3000
SNS_BYTES: Final = 256 * 1024
_SUBJECT_CHARACTERS: Final = 100
_DEFAULT_TEMPLATE: Final = parse_template("{{ text }}")
_ELLIPSIS: Final = "…"
_TORN_ENTITY: Final = re.compile(r"&[a-z]{0,3}$")
# Slack has entities for ``&``, ``<`` and ``>``; other marks of mrkdwn have no escape, so a word
# joiner beside them disables them
_ESCAPES: Final = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        "`": "'",
        "*": "\u2060*",
        "_": "\u2060_",
        "~": "\u2060~",
        "@": "@\u2060",
    }
)


def cloud_event(message: Message, cluster: str) -> dict[str, Any]:
    """A message as a CloudEvent of version 1.0."""
    first = message.records[0]
    event: dict[str, Any] = {
        "specversion": "1.0",
        "type": f"sh.karpenter.decision.{_type(message)}.v1",
        "source": f"/clusters/{quote(cluster, safe='')}",
        "id": message.id,
        "time": first.at,
        "datacontenttype": "application/json",
    }
    if message.is_digest:
        return {**event, "data": _digest(message)}
    if first.subject:
        event["subject"] = first.subject
    return {**event, "data": msgspec.to_builtins(first)}


def encoded_event(message: Message, cluster: str, most: int | None = None) -> bytes:
    """A CloudEvent as bytes; detail and objects are omitted where it would be too large."""
    event = cloud_event(message, cluster)
    body = msgspec.json.encode(event)
    if most is None or len(body) <= most:
        return body
    data = event["data"]
    for record in data.get("records", [data]):
        record["detail"] = {"omittedBytes": len(body)}
        record["objects"] = record["objects"][:_SUBJECT_CHARACTERS]
    return msgspec.json.encode(event)


def slack_payload(message: Message, template: Template | None) -> dict[str, Any]:
    """A message for an incoming webhook of Slack."""
    text = _cut(_slack_text(message, template or _DEFAULT_TEMPLATE))
    return {
        "text": text,
        "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": text}}],
    }


def sns_subject(message: Message) -> str:
    """The subject that e-mail subscribers of a topic see: ASCII, on one line, short."""
    text = digest_text(message) if message.is_digest else message.records[0].text
    printable = "".join(each if " " <= each <= "~" else "?" for each in text)
    return printable[:_SUBJECT_CHARACTERS].strip() or "karpenter"


def digest_text(message: Message) -> str:
    """How many records a digest stands for, by kind."""
    kinds = ", ".join(f"{number} {kind}" for kind, number in message.kinds)
    count = f"and {message.count} more" if message.is_overflow else f"{message.count} decisions"
    return f"{count}: {kinds}"


def signature(body: bytes, key: bytes, at: int) -> Mapping[str, str]:
    """The HMAC header by which a receiver verifies the sender and the time of a body."""
    signed = hmac.new(key, f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return {SIGNATURE: f"t={at},v1={signed}"}


def escaped(text: str) -> str:
    """Text of the cluster as plain words of mrkdwn, without mentions and marks."""
    return text.translate(_ESCAPES)


def _type(message: Message) -> str:
    return "digest" if message.is_digest else message.records[0].kind.value.lower()


def _digest(message: Message) -> dict[str, Any]:
    return {
        "count": message.count,
        "kinds": dict(message.kinds),
        "text": digest_text(message),
        "records": [msgspec.to_builtins(record) for record in message.records],
    }


def _slack_text(message: Message, template: Template) -> str:
    def line(record: DecisionRecord) -> str:
        return template.render(record, escaped)

    if not message.is_digest:
        return line(message.records[0])
    if message.is_overflow:
        return digest_text(message)
    return "\n".join([digest_text(message), *(f"• {line(each)}" for each in message.records)])


def _cut(text: str) -> str:
    if len(text) <= SLACK_CHARACTERS:
        return text or "karpenter"
    kept = text[: SLACK_CHARACTERS - len(_ELLIPSIS)]
    return _TORN_ENTITY.sub("", kept) + _ELLIPSIS

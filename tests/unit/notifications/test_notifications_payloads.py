"""What is sent: templates, Slack's blocks, CloudEvents, signatures and matches; pure."""

import json
import random
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator

from karpenter.decision_log.record import DecisionRecord, Draft, Kind, Outcome, Severity, recorded
from karpenter.notifications.matching import Match
from karpenter.notifications.outbox import Message
from karpenter.notifications.payloads import (
    SNS_BYTES,
    encoded_event,
    escaped,
    signature,
    slack_payload,
    sns_subject,
)
from karpenter.notifications.retrying import Verdict, asked_delay, delay_after, verdict_of
from karpenter.notifications.template import FIELDS, parse_template

PAGE = Path(__file__).parents[3] / "docs" / "notifications.md"
AT = datetime(2026, 11, 16, 20, 15, 9, tzinfo=UTC)
# What Slack takes from an incoming webhook, as far as we use it
SLACK = Draft202012Validator(
    {
        "type": "object",
        "additionalProperties": False,
        "required": ["text", "blocks"],
        "properties": {
            "text": {"type": "string", "minLength": 1, "maxLength": 40_000},
            "blocks": {
                "type": "array",
                "minItems": 1,
                "maxItems": 50,
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["type", "text"],
                    "properties": {
                        "type": {"const": "section"},
                        "text": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["type", "text"],
                            "properties": {
                                "type": {"const": "mrkdwn"},
                                "text": {"type": "string", "minLength": 1, "maxLength": 3000},
                            },
                        },
                    },
                },
            },
        },
    }
)


def record(**changes: Any) -> DecisionRecord:
    values: dict[str, Any] = {
        "kind": Kind.INTERRUPT,
        "outcome": Outcome.BEGUN,
        "reason": "SpotInterrupted",
        "text": "a goes",
        "objects": ("NodeClaim/a", "Node/b"),
        "node_pools": ("prod-web",),
    }
    return recorded(Draft(**(values | changes)), "7f3c-1", AT)


def message(*records: DecisionRecord) -> Message:
    return Message(records[0].id, records, (("Interrupt", len(records)),))


def slack_text(text: str) -> str:
    payload = slack_payload(message(record(text=text)), None)
    SLACK.validate(payload)
    (block,) = payload["blocks"]
    assert block["text"]["text"] == payload["text"]
    return str(payload["text"])


@pytest.mark.case("OPS-40")
def test_cluster_text_mentions_nobody_and_formats_nothing() -> None:
    text = slack_text("<!channel> `rm -rf` *bold* <https://evil.example|click> @here & <@U123>")

    assert "<" not in text
    assert ">" not in text
    assert "`" not in text
    assert "&lt;!channel&gt;" in text
    assert re.search(r"@\w", text) is None
    assert re.search(r"(^|\s)[*_~]", text) is None
    assert "&amp; &lt;" in text


@pytest.mark.case("OPS-40")
@pytest.mark.parametrize("text", ["x" * 10_000, "<" * 10_000, "&" * 10_000, "@`*" * 4000])
def test_long_text_is_cut_at_3000_characters_and_never_within_an_entity(text: str) -> None:
    cut = slack_text(text)

    assert 2990 <= len(cut) <= 3000
    assert cut.endswith("…")
    assert re.search(r"&(?!amp;|lt;|gt;)", cut) is None


@pytest.mark.case("OPS-40")
@given(st.text(max_size=5000))
def test_any_text_is_valid_for_slack(text: str) -> None:
    found = slack_text(text)

    assert "<" not in found
    assert re.search(r"&(?!amp;|lt;|gt;)", found) is None


def test_a_template_is_trusted_and_what_it_shows_is_not() -> None:
    template = parse_template("*{{ text }}* ({{nodePool}}, {{ reason }})")

    payload = slack_payload(message(record(text="<b>")), template)

    assert "*&lt;b&gt;* (prod-web, SpotInterrupted)" == payload["text"]


def test_every_field_of_a_record_can_be_shown() -> None:
    text = "|".join(f"{{{{ {name} }}}}" for name in FIELDS)
    shown = parse_template(text).render(record(savings_hourly=0.1086, command="0b1c", pods=3))

    assert (
        "7f3c-1|2026-11-16T20:15:09.000Z|Interrupt|controller|SpotInterrupted|warning|begun|a goes"
        "|NodeClaim/a|NodeClaim/a, Node/b|prod-web|prod-web|3|0.1086|false|0b1c"
    ) == shown


def test_what_a_record_does_not_have_is_shown_as_nothing() -> None:
    template = parse_template("[{{ savingsHourly }}{{ command }}{{ nodePool }}{{ object }}]")

    assert "[]" == template.render(record(node_pools=(), objects=()))


def test_text_of_a_record_is_no_template() -> None:
    assert "{{ id }}" == parse_template("{{ text }}").render(record(text="{{ id }}"))


def test_a_digest_for_slack() -> None:
    payload = slack_payload(message(record(text="one"), record(text="two")), None)

    assert "2 decisions: 2 Interrupt\n• one\n• two" == payload["text"]


def test_a_message_for_sns_stays_below_its_limit() -> None:
    names = tuple(f"Node/{number:060}" for number in range(6000))
    large = record(objects=names, detail={"names": list(names)})

    body = encoded_event(message(large), "prod", SNS_BYTES)

    assert len(body) <= SNS_BYTES
    assert 100 == len(json.loads(body)["data"]["objects"])
    assert len(encoded_event(message(large), "prod")) > SNS_BYTES


@pytest.mark.parametrize(
    ("text", "subject"), [("ä\nb", "??b"), ("x" * 200, "x" * 100), ("\n", "?")]
)
def test_the_subject_of_a_mail_is_short_ascii_on_one_line(text: str, subject: str) -> None:
    assert subject == sns_subject(message(record(text=text)))


def test_the_source_of_an_event_is_a_valid_reference() -> None:
    event = json.loads(encoded_event(message(record()), "my cluster/eu"))

    assert "/clusters/my%20cluster%2Feu" == event["source"]


def verifier() -> Callable[..., bool]:
    """The function that the documentation gives to receivers."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    found: dict[str, Any] = {}
    exec(code, found)
    return found["is_from_karpenter"]  # type: ignore[no-any-return]


@pytest.mark.case("OPS-41")
def test_the_verifier_of_the_documentation_accepts_the_right_key_only() -> None:
    is_valid, body, now = verifier(), b'{"id":"7f3c-1"}', int(time.time())
    (header,) = signature(body, b"right", now).values()

    assert is_valid(header, body, b"right")
    assert not is_valid(header, body, b"wrong")
    assert not is_valid(header, body + b" ", b"right")
    (rotated,) = signature(body, b"new", now).values()
    assert not is_valid(rotated, body, b"right")


@pytest.mark.case("OPS-41")
def test_the_verifier_of_the_documentation_refuses_old_and_broken_signatures() -> None:
    is_valid, body, now = verifier(), b"{}", int(time.time())
    (old,) = signature(body, b"key", now - 3600).values()
    (header,) = signature(body, b"key", now).values()

    assert not is_valid(old, body, b"key")
    replayed = header.replace(f"t={now}", f"t={now + 100}")
    for broken in ("", "t=1", "v1=00", "t=x,v1=y", "nonsense", replayed, f"t={now},v1=ü"):
        assert not is_valid(broken, body, b"key")


def test_the_configuration_in_the_documentation_is_valid() -> None:
    from karpenter.notifications.config import parse_config

    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)

    assert ["platform", "on-call", "audit"] == [
        sink.name for sink in parse_config(text.encode(), "page").sinks
    ]


@pytest.mark.parametrize(
    ("match", "is_told"),
    [
        (Match(), True),
        (Match(kinds=frozenset({Kind.INTERRUPT})), True),
        (Match(kinds=frozenset({Kind.DISRUPT})), False),
        (Match(reasons=frozenset({"SpotInterrupted"})), True),
        (Match(reasons=frozenset({"Drifted"})), False),
        (Match(node_pools=("prod-*",)), True),
        (Match(node_pools=("dev-*", "prod-we?")), True),
        (Match(node_pools=("PROD-*",)), False),
    ],
)
def test_matching(match: Match, is_told: bool) -> None:
    assert is_told == match.lets_through(record())


def test_by_default_sinks_are_told_of_warnings_only() -> None:
    assert not Match().lets_through(record(severity=Severity.INFO))
    assert not Match().lets_through(record(kind=Kind.DISRUPT))
    assert not Match(node_pools=("*",)).lets_through(record(node_pools=()))


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        ((200, 202, 204), Verdict.SENT),
        ((408, 425, 429, 500, 503, 599), Verdict.AGAIN),
        ((100, 301, 308, 400, 401, 404, 410), Verdict.FINAL),
    ],
)
def test_verdicts(statuses: tuple[int, ...], verdict: Verdict) -> None:
    assert {verdict} == set(map(verdict_of, statuses))


@given(st.integers(1, 100), st.integers())
def test_delays_grow_from_a_second_to_five_minutes(tries: int, seed: int) -> None:
    rng = random.Random(seed)

    assert min(300.0, 2.0 ** (min(tries, 10) - 1)) <= delay_after(tries, rng) <= 300.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120.0),
        ("Mon, 16 Nov 2026 20:16:09 GMT", 60.0),
        ("Mon, 16 Nov 2026 20:14:09 GMT", 0.0),
        ("", 0.0),
        ("soon", 0.0),
        ("-5", 0.0),
        ("1e9", 0.0),
        ("٣", 0.0),
        ("9" * 5000, 999_999_999.0),
    ],
)
def test_retry_after(text: str, seconds: float) -> None:
    assert seconds == asked_delay({"retry-after": text}, AT)


def test_escaping_keeps_ordinary_text() -> None:
    text = "general-light goes: 1 pod fits on general-full, saves $0.1086/h"

    assert text == escaped(text)

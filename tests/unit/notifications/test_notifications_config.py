"""The configuration of notifications: read as a whole, refused in one sentence with its place."""

import pytest

from karpenter.decision_log.record import Kind, Severity
from karpenter.notifications.config import ConfigError, SinkConfig, SinkType, parse_config
from karpenter.notifications.matching import Match
from karpenter.notifications.template import parse_template

EXAMPLE = b"""\
sinks:
- name: platform
  type: slack                # slack | webhook | sns
  urlFile: /etc/karpenter/notifications/slack
  match: {kinds: [Interrupt, Disrupt, Refuse], reasons: [], nodePools: ["prod-*"], minSeverity: warning}
  digest: 1m
  template: "{{ text }} ({{ nodePool }}, {{ reason }})"
- name: audit
  type: sns
  topicArn: arn:aws-us-gov:sns:us-gov-west-1:123456789012:karpenter
- name: hook
  type: webhook
  urlFile: url
  secretFile: key
  match: {kinds: [Disrupt]}
"""


def test_the_example_of_the_specification() -> None:
    config = parse_config(EXAMPLE, "notifications.yaml")

    slack, audit, hook = config.sinks
    assert slack == SinkConfig(
        name="platform",
        type=SinkType.SLACK,
        match=Match(
            kinds=frozenset({Kind.INTERRUPT, Kind.DISRUPT, Kind.REFUSE}),
            node_pools=("prod-*",),
            min_severity=Severity.WARNING,
        ),
        digest_seconds=60.0,
        url_file="/etc/karpenter/notifications/slack",
        template=parse_template("{{ text }} ({{ nodePool }}, {{ reason }})"),
    )
    assert ("us-gov-west-1", Match()) == (audit.region, audit.match)
    assert ("key", Severity.INFO) == (hook.secret_file, hook.match.min_severity)
    assert config.sink("audit") is audit


def test_no_sinks() -> None:
    assert () == parse_config(b"sinks: []", "file").sinks


def sink(text: str) -> bytes:
    lines = ["name: a", "type: slack", "urlFile: url"]
    kept = [line for line in lines if line.split(":")[0] not in text]
    return ("sinks:\n- " + "\n  ".join([*kept, text])).encode()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"sinks: {}", "f:1: sinks: it must be a list"),
        (b"sink: []", "f:1: sink: there is no such field here; did you mean sinks?"),
        (b"sinks: [1]", "f:1: sinks[0]: it must be a mapping"),
        (b"- a", "f:1: "),
        (b"sinks: [", "f:2:1: the text ends"),
        (b"", "f: it holds 0 documents instead of one with sinks"),
        (b"sinks: []\n---\nsinks: []", "f: it holds 2 documents instead of one with sinks"),
        (b"x" * 300_000, "f: it has 300000 bytes, and may have 262144"),
        (sink("name: A"), "f:4: sinks[0].name: 'A' is no name; use up to 63 small letters"),
        (sink("type: mail"), "f:4: sinks[0].type: 'mail' is none of slack, webhook or sns"),
        (b"sinks:\n- name: a\n", "f:2: sinks[0].type: it is missing; use slack, webhook or sns"),
        (b"sinks:\n- name: a\n  type: slack", "f:2: sinks[0].urlFile: it is missing"),
        (
            sink("url: https://hooks.example.com/secret"),
            (
                "f:5: sinks[0].url: there is no such field here; secrets come from files only:"
                " write the address into a file and name it as urlFile"
            ),
        ),
        (sink("secretFile: key"), "f:5: sinks[0].secretFile: there is no such field here"),
        (sink("urlFile: ''"), "f:4: sinks[0].urlFile: it is empty"),
        (sink("digest: 0s"), "f:5: sinks[0].digest: '0s' is no duration from 1s to 1h"),
        (sink("digest: 5"), "f:5: sinks[0].digest: 5 is no duration from 1s to 1h"),
        (sink("digest: 2h"), "f:5: sinks[0].digest: '2h' is no duration from 1s to 1h"),
        (
            sink("match: {kinds: [Interupt]}"),
            "f:5: sinks[0].match.kinds[0]: 'Interupt' is none of",
        ),
        (sink("match: {minSeverity: high}"), "f:5: sinks[0].match.minSeverity: 'high' is none"),
        (sink("match: {nodePools: prod}"), "f:5: sinks[0].match.nodePools: it must be a list"),
        (sink("match: {pools: [a]}"), "f:5: sinks[0].match.pools: there is no such field here"),
        (
            sink("template: '{{ texts }}'"),
            "f:5: sinks[0].template: 'texts' is no field of a record; did you mean text?",
        ),
        (sink("template: '{{ text'"), "f:5: sinks[0].template: {{ and }} must enclose one field"),
        (sink("template: " + "x" * 2001), "f:5: sinks[0].template: it has 2001 characters"),
        (
            b"sinks:\n- {name: a, type: sns, topicArn: topic}",
            "f:2: sinks[0].topicArn: 'topic' is no topic such as arn:aws:sns:REGION:ACCOUNT:NAME",
        ),
        (
            b"sinks:\n- &s {name: a, type: slack, urlFile: u}\n- *s",
            "f:3: sinks[1].name: two sinks are called 'a'",
        ),
    ],
)
def test_whatever_is_wrong_is_one_sentence_with_file_line_and_field(
    data: bytes, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(data, "f")

    assert str(caught.value).startswith(problem)
    assert "\n" not in str(caught.value)


def test_a_sink_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match="no sink is called 'x'; there are platform, audit, hook"):
        parse_config(EXAMPLE, "f").sink("x")

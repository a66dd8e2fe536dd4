"""Messages that really travel: over HTTP to this host, to a simulated SNS, and from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from helpers.commands import run
from helpers.loopback import listening
from karpenter.clock import SystemClock
from karpenter.notifications.channels import ChannelDependencies, UnsentError, open_channel
from karpenter.notifications.config import SinkConfig, parse_config
from karpenter.notifications.payloads import SIGNATURE
from karpenter.notifications.trial import TrialError, send_test, trial_message
from unit.notifications.test_notifications_payloads import verifier

TOPIC = "arn:aws:sns:us-west-2:123456789012:karpenter"
AROUND = ChannelDependencies("prod", SystemClock(), {})


def configured(folder: Path, **fields: Any) -> SinkConfig:
    sink = {"name": "hook", "type": "webhook", "urlFile": str(folder / "url"), **fields}
    (found,) = parse_config(json.dumps({"sinks": [sink]}).encode(), "file").sinks
    return found


@pytest.mark.case("OPS-38", "OPS-41")
async def test_a_webhook_gets_a_signed_cloud_event(tmp_path: Path) -> None:
    got: list[tuple[bytes, Any]] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        got.append((await request.read(), request.headers))
        return web.Response(status=202)

    async with listening(handle) as port:
        (tmp_path / "url").write_text(f"http://127.0.0.1:{port}/hook?token=secret\n")
        (tmp_path / "key").write_text("a key\n")
        sink = configured(tmp_path, secretFile=str(tmp_path / "key"))
        told = await send_test(sink, open_channel(sink, AROUND), AROUND.clock)

    ((body, headers),) = got
    assert "sink hook: 127.0.0.1 answered 202" == told
    assert "sh.karpenter.decision.config.v1" == json.loads(body)["type"]
    assert verifier()(headers[SIGNATURE], body, b"a key")
    assert headers["User-Agent"].startswith("karpenter/")


@pytest.mark.case("OPS-38")
async def test_a_redirection_is_not_followed(tmp_path: Path) -> None:
    paths: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        paths.append(request.path)
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    async with listening(handle) as port:
        (tmp_path / "url").write_text(f"http://localhost:{port}/hook")
        sink = configured(tmp_path, type="slack")
        with pytest.raises(TrialError, match="sink hook: localhost answered 307"):
            await send_test(sink, open_channel(sink, AROUND), AROUND.clock)

    assert ["/hook"] == paths


async def test_a_host_that_does_not_answer_is_named_without_its_path(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("http://127.0.0.1:1/services/secret")
    sink = configured(tmp_path)
    channel = open_channel(sink, AROUND)

    with pytest.raises(UnsentError) as caught:
        await channel.send(trial_message(AROUND.clock.now()))
    await channel.close()

    assert "127.0.0.1: cannot connect: connection refused" == str(caught.value)


async def test_a_topic_of_sns_gets_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    moto = pytest.importorskip("moto", reason="needs the package moto")
    boto3 = pytest.importorskip("boto3", reason="needs the package boto3")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    (sink,) = parse_config(
        json.dumps({"sinks": [{"name": "t", "type": "sns", "topicArn": TOPIC}]}).encode(), "f"
    ).sinks
    with moto.mock_aws():
        missing = await open_channel(sink, AROUND).send(trial_message(AROUND.clock.now()))
        boto3.client("sns", region_name="us-west-2").create_topic(Name="karpenter")
        told = await send_test(sink, open_channel(sink, AROUND), AROUND.clock)

        from moto.sns.models import sns_backends

        topic = sns_backends["123456789012"]["us-west-2"].topics[TOPIC]
        ((_, text, subject, *_),) = topic.sent_notifications
    assert 404 == missing.status
    assert "sink t: karpenter answered 200" == told
    assert "sh.karpenter.decision.config.v1" == json.loads(text)["type"]
    assert (subject or "").startswith("this is a test")


class TestCommand:
    def file(self, folder: Path, url: str = "https://hooks.example.com/services/secret") -> Path:
        (folder / "url").write_text(url)
        path = folder / "notifications.yaml"
        path.write_text(f"sinks:\n- {{name: hook, type: slack, urlFile: {folder / 'url'}}}\n")
        return path

    def test_a_good_file_is_shown_with_hosts_only(self, tmp_path: Path) -> None:
        ran = run("controller", "--check-notifications", str(self.file(tmp_path)))

        assert (0, "hook: slack to hooks.example.com\n") == (ran.code, ran.err)

    def test_a_bad_file_is_one_sentence(self, tmp_path: Path) -> None:
        path = self.file(tmp_path)
        path.write_text("sinks:\n- {name: hook, type: slack}\n")

        ran = run("controller", "--check-notifications", str(path))

        assert (2, f"error: {path}:2: sinks[0].urlFile: it is missing\n") == (ran.code, ran.err)

    def test_a_missing_file(self) -> None:
        ran = run("controller", "--check-notifications", "/nowhere")

        told = "error: /nowhere: it cannot be read: no such file or directory\n"
        assert (2, told) == (ran.code, ran.err)

    def test_plain_http_is_refused(self, tmp_path: Path) -> None:
        path = self.file(tmp_path, "http://hooks.example.com/services/secret")

        ran = run("controller", "--check-notifications", str(path))

        url = tmp_path / "url"
        told = (
            f"error: sink hook: {url} holds a plain http address of hooks.example.com; use https\n"
        )
        assert (1, told) == (ran.code, ran.err)

    def test_a_test_to_a_sink_that_is_not_there(self, tmp_path: Path) -> None:
        path = self.file(tmp_path)

        ran = run("controller", "--check-notifications", str(path), "--send-test", "other")

        assert (2, "error: no sink is called 'other'; there are hook\n") == (ran.code, ran.err)

    def test_a_test_that_cannot_be_sent(self, tmp_path: Path) -> None:
        path = self.file(tmp_path, "http://127.0.0.1:1/services/secret")

        ran = run("controller", "--notifications-config", str(path), "--send-test", "hook")

        told = "error: sink hook: 127.0.0.1: cannot connect: connection refused\n"
        assert (1, told) == (ran.code, ran.err)

    def test_a_test_without_a_file(self) -> None:
        ran = run("controller", "--send-test", "hook")

        told = "error: --send-test needs a file: --check-notifications or NOTIFICATIONS_CONFIG\n"
        assert (2, told) == (ran.code, ran.err)

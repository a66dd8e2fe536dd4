"""``karpenter controller``: every flag and variable, who wins, and what keeps it from starting."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from helpers.commands import run
from helpers.kubeconfigs import kubeconfig
from helpers.loopback import listening
from karpenter.cli.controller_flags import FLAGS, SETTINGS, normalised
from karpenter.clock import SystemClock
from karpenter.cloud.provider import REBOOT_NODE, CloudError, RepairPolicy
from karpenter.cloud.types import ProviderFacts
from karpenter.kube import retry
from karpenter.operator import run as controller_run
from karpenter.operator.memory import MemoryAlarm
from karpenter.settings import (
    SettingError,
    Settings,
    flag_of,
    read_settings,
    variable_of,
    with_assignments,
)
from karpenter.telemetry import logs, recording_logger
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.server.http import Server, new_token, serving, write_kubeconfig

FALLBACK = RepairPolicy("Ready", "False", timedelta(minutes=10))
SPECIFIC = RepairPolicy("Ready", "False", timedelta(minutes=10), reason_regex="^Kubelet")


@dataclass
class Started:
    """With what the controllers would have been started."""

    settings: Settings | None = None
    environment: Mapping[str, str] | None = None


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """Take note of the start instead of starting; no variable of this machine counts."""
    for flag in FLAGS:
        monkeypatch.delenv(flag.variable, raising=False)
    found = Started()

    def note(settings: Settings, environment: Mapping[str, str], *_: object) -> int:
        found.settings, found.environment = settings, environment
        return 0

    monkeypatch.setattr(controller_run, "run", note)
    monkeypatch.setattr(logs, "take_over", lambda _: None)
    return found


class TestFlags:
    def test_every_setting_has_a_flag(self) -> None:
        assert {field.name for field in fields(Settings)} == {flag.setting for flag in SETTINGS}

    @pytest.mark.parametrize(
        "flag", [flag for flag in SETTINGS if flag.default], ids=lambda flag: flag.text
    )
    def test_the_default_in_the_help_is_the_default(self, flag: Any) -> None:
        if flag.setting == "leader_election_namespace":
            assert "" == Settings().leader_election_namespace
            return

        assert Settings() == with_assignments(Settings(), {flag.variable: flag.default})

    def test_help_names_every_flag(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "200")

        ran = run("controller", "--help")

        assert 0 == ran.code
        assert [] == [flag.text for flag in FLAGS if flag.text not in ran.out]

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            (["--enable-profiling"], ["--enable-profiling=true"]),
            (["-enable-profiling=false"], ["--enable-profiling=false"]),
            (["-metrics-port", "1"], ["--metrics-port", "1"]),
            (["--metrics-port=1"], ["--metrics-port=1"]),
            (["-h"], ["-h"]),
            (["--feature-gates=A=true,B=false"], ["--feature-gates=A=true,B=false"]),
        ],
    )
    def test_flags_are_read_as_operators_write_them(
        self, given: list[str], expected: list[str]
    ) -> None:
        assert expected == normalised(given)


class TestPrecedence:
    def test_a_flag_goes_before_a_variable_and_a_variable_before_a_default(
        self, started: Started, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("METRICS_PORT", "1111")
        monkeypatch.setenv("BATCH_MAX_DURATION", "30s")

        ran = run("controller", "--metrics-port", "2222", "-disable-leader-election")

        assert (0, "") == (ran.code, ran.err)
        assert started.settings is not None
        assert (2222, True, timedelta(seconds=30), 8081) == (
            started.settings.metrics_port,
            started.settings.disable_leader_election,
            started.settings.batch_max_duration,
            started.settings.health_probe_port,
        )

    def test_the_last_of_several_wins(self, started: Started) -> None:
        run("controller", "--cpu-requests=1", "--cpu-requests=2")

        assert started.settings is not None
        assert 2 == started.settings.cpu_requests

    def test_a_flag_hides_a_bad_variable(self) -> None:
        environment = {"PREFERENCE_POLICY": "Sometimes"}

        settings = read_settings(environment, {"preference_policy": "Ignore"})

        assert "Ignore" == settings.preference_policy

    def test_options_of_the_provider_reach_it_as_variables(self, started: Started) -> None:
        run("controller", "--provider=mycloud", "--instance-types-file-path", "types.json")

        assert started.environment is not None
        assert ("mycloud", "types.json") == (
            started.environment["CLOUD_PROVIDER"],
            started.environment["INSTANCE_TYPES_FILE_PATH"],
        )

    @pytest.mark.parametrize(
        ("variable", "text", "field", "expected"),
        [
            ("METRICS_PORT", "many", "metrics_port", 8080),
            ("METRICS_PORT", "", "metrics_port", 8080),
            ("METRICS_PORT", "1_000", "metrics_port", 8080),
            ("ENABLE_PROFILING", "perhaps", "enable_profiling", False),
            ("ENABLE_PROFILING", "1", "enable_profiling", True),
            ("BATCH_IDLE_DURATION", "soon", "batch_idle_duration", timedelta(seconds=1)),
            ("LOG_LEVEL", "", "log_level", ""),
            ("FEATURE_GATES", "", "feature_gates", Settings().feature_gates),
        ],
    )
    def test_variables_are_read_forgivingly(
        self, variable: str, text: str, field: str, expected: object
    ) -> None:
        assert expected == getattr(read_settings({variable: text}, {}), field)

    def test_names_of_a_setting(self) -> None:
        assert ("METRICS_PORT", "metrics-port") == (
            variable_of("metrics_port"),
            flag_of("metrics_port"),
        )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ["--log-level=loud"],
            "--log-level: 'loud' is none of the choices; use debug or info or error",
            id="a bad choice",
        ),
        pytest.param(
            ["--metrics-detail=pods"],
            "--metrics-detail: 'pods' is none of the choices; use object or pool",
            id="a bad detail",
        ),
        pytest.param(
            ["--preference-policy="],
            "--preference-policy: '' is none of the choices; use Respect or Ignore",
            id="an empty choice",
        ),
        pytest.param(
            ["--feature-gates", "NodeRepair="],
            "--feature-gates: NodeRepair needs true or false, not ''",
            id="a gate without a value",
        ),
        pytest.param(
            ["--metrics-port", "many"],
            "--metrics-port: 'many' is not a whole number",
            id="a bad number",
        ),
        pytest.param(
            ["--enable-profiling=True"],
            "--enable-profiling: 'True' is neither true nor false",
            id="a boolean that is not literal",
        ),
        pytest.param(
            ["--batch-max-duration=long"],
            "--batch-max-duration: 'long' is not a duration such as 10s or 1m30s, of numbers with"
            " the units h, m, s and ms",
            id="a bad duration",
        ),
        pytest.param(
            ["--log-output-paths", "/nowhere/at/all"],
            "LOG_OUTPUT_PATHS: /nowhere/at/all cannot be written: no such file or directory",
            id="a log that cannot be written",
        ),
    ],
)
def test_a_bad_flag_is_one_sentence(arguments: list[str], said: str, started: Started) -> None:
    ran = run("controller", *arguments)

    assert (2, f"error: {said}\n") == (ran.code, ran.err)
    assert started.settings is None


@pytest.mark.parametrize("argument", ["--kubeconfig=x", "--metrics-prot=1", "extra"])
def test_what_nobody_knows_aborts(argument: str, started: Started) -> None:
    assert 2 == run("controller", argument).code
    assert started.settings is None


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("LOG_LEVEL", "loud"),
        ("MIN_VALUES_POLICY", ""),
        ("FEATURE_GATES", "StaticCapacity="),
    ],
)
def test_a_bad_choice_in_the_environment_aborts(
    variable: str, text: str, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)

    ran = run("controller")

    assert 2 == ran.code
    assert ran.err.startswith(f"error: {variable}: ")
    assert 1 == ran.err.count("\n")


def test_unknown_gates_are_accepted() -> None:
    settings = read_settings({}, {"feature_gates": "Future=true,StaticCapacity=1"})

    assert settings.feature_gates["Future"]
    assert settings.feature_gates["StaticCapacity"]
    assert settings.feature_gates["ReservedCapacity"]


def test_blanks_around_gates_do_not_count() -> None:
    settings = read_settings({"FEATURE_GATES": " NodeOverlay = true , StaticCapacity= true"}, {})

    assert settings.feature_gates["NodeOverlay"]
    assert settings.feature_gates["StaticCapacity"]


def test_a_flag_that_cannot_be_read_names_the_flag() -> None:
    with pytest.raises(SettingError, match=r"^--memory-limit: '1GB' is not a whole number$"):
        read_settings({}, {"memory_limit": "1GB"})


def test_a_scheduler_configuration_that_cannot_be_read_is_bad_input() -> None:
    ran = run("controller", "--scheduler-config", "podTopologySpred: {}")

    assert (2, "", 1) == (ran.code, ran.out, len(ran.errors))
    assert ran.err.startswith("error: SCHEDULER_CONFIG")


class TestStart:
    """What keeps the process from starting, each in one sentence."""

    async def refusal(
        self,
        environment: Mapping[str, str],
        capsys: pytest.CaptureFixture[str],
        **flags: str,
    ) -> str:
        log, _ = recording_logger()
        settings = read_settings({}, flags)

        code = await controller_run.run_controller(settings, environment, log)

        said = capsys.readouterr().err
        assert (1, 1) == (code, said.count("\n")), said
        return said.removeprefix("error: ").strip()

    @pytest.fixture
    def nobody(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
        """A kubeconfig for a server that does not answer, however often it is asked."""
        monkeypatch.setattr(retry, "RETRIES", 0)
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/secret"}}],
            "users": [{"name": "u", "user": {}}],
        }
        file = tmp_path / "kubeconfig"
        file.write_text(yaml.safe_dump(config), "utf-8")
        return {"KUBECONFIG": str(file)}

    async def test_no_cluster(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        said = await self.refusal({"HOME": str(tmp_path)}, capsys)

        assert said.startswith("no cluster is configured: set KUBECONFIG")

    async def test_no_namespace_for_the_lease(
        self, nobody: Mapping[str, str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        said = await self.refusal(nobody, capsys)

        assert said.startswith("leader election needs a namespace outside of a cluster: set")

    async def test_a_server_that_does_not_answer(
        self, nobody: Mapping[str, str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        said = await self.refusal(nobody, capsys, leader_election_namespace="default")

        assert said.startswith("cannot connect to http://127.0.0.1:1")
        assert "secret" not in said

    async def test_a_server_that_is_no_api_server(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        async def welcome(_: web.BaseRequest) -> web.Response:
            return web.Response(text="<html>welcome</html>", content_type="text/html")

        async with listening(welcome) as port:
            server = {"server": f"http://127.0.0.1:{port}"}
            file = kubeconfig(tmp_path / "kubeconfig", cluster=server)
            said = await self.refusal(
                {"KUBECONFIG": str(file)}, capsys, disable_leader_election="true"
            )

        assert said.startswith("the answer to GET /apis/karpenter.sh/v1/nodepools cannot be read: ")
        assert said.endswith("; is it an API server?")

    async def test_a_server_that_knows_no_kind_at_all(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        async def missing(_: web.BaseRequest) -> web.Response:
            return web.Response(status=404, text="404 page not found")

        async with listening(missing) as port:
            server = {"server": f"http://127.0.0.1:{port}"}
            file = kubeconfig(tmp_path / "kubeconfig", cluster=server)
            said = await self.refusal(
                {"KUBECONFIG": str(file)}, capsys, disable_leader_election="true"
            )

        assert said == "the answer to GET /api/v1/nodes is 404 not found; is it an API server?"

    async def test_a_provider_nobody_knows(
        self, nobody: Mapping[str, str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        environment = {**nobody, "CLOUD_PROVIDER": "kwokk"}

        said = await self.refusal(environment, capsys, disable_leader_election="true")

        assert said.startswith("no provider is called kwokk; known are ")
        assert said.endswith("did you mean kwok?")

    async def test_a_catalogue_that_is_not_there(
        self, nobody: Mapping[str, str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        environment = {**nobody, "INSTANCE_TYPES_FILE_PATH": "/nowhere.json"}

        said = await self.refusal(environment, capsys, disable_leader_election="true")

        assert "/nowhere.json: no such file or directory" == said

    async def test_a_scheduler_configuration_that_makes_no_sense(
        self, nobody: Mapping[str, str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        said = await self.refusal(nobody, capsys, scheduler_config="podTopologySpred: {}")

        assert "podTopologySpred" in said

    @pytest.mark.parametrize(
        ("flags", "expected", "policies"),
        [
            pytest.param(
                {"feature_gates": "NodeRepair=true"},
                f"feature gate NodeRepair, provider kwok: {problem}",
                policies,
                id=f"V15-S36 {title}",
            )
            for title, policies, problem in (
                ("no policies", (), "the provider has no repair policies"),
                ("two fallbacks", (FALLBACK, FALLBACK), "exactly one repair policy"),
                ("no fallback", (SPECIFIC,), "exactly one repair policy"),
                (
                    "the fallback reboots",
                    (replace(FALLBACK, action=REBOOT_NODE),),
                    "the fallback repair policy must have the action ReplaceNode",
                ),
                (
                    "a bad expression",
                    (FALLBACK, replace(SPECIFIC, reason_regex="(")),
                    "repair policy 2: ",
                ),
                ("priority 101", (replace(FALLBACK, priority=101),), "repair policy 1: "),
                (
                    "several problems are all told",
                    (replace(FALLBACK, priority=101), FALLBACK),
                    "repair policy 1: the priority must be within 0 and 100, not 101; exactly one",
                ),
            )
        ]
        + [
            pytest.param(flags, "cannot connect to", (), id=f"V15-S37 {title}")
            for title, flags in (
                ("without the gate it goes on", {"feature_gates": "NodeRepair=false"}),
                (
                    "the older way needs none",
                    {"feature_gates": "NodeRepair=true", "legacy_node_repair": "true"},
                ),
            )
        ],
    )
    async def test_node_repair_needs_policies_that_make_sense(
        self,
        flags: Mapping[str, str],
        expected: str,
        policies: tuple[RepairPolicy, ...],
        nobody: Mapping[str, str],
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        class Cloud:
            repair_policies = policies

        monkeypatch.setattr(controller_run, "load_provider", lambda _: lambda _: Cloud())

        said = await self.refusal(nobody, capsys, disable_leader_election="true", **flags)

        assert said.startswith(expected)

    async def test_a_provider_that_cannot_start_ends_the_start_before_anything_is_served(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        class Cloud:
            repair_policies = ()
            facts = ProviderFacts("mycloud", (), frozenset())

            async def start(self) -> None:
                raise CloudError("nobody answers; check the address")

        monkeypatch.setattr(controller_run, "load_provider", lambda _: lambda _: Cloud())
        server = Server(Cluster(SystemClock()).api, host="127.0.0.1", port=0, token=new_token())
        kubeconfig = tmp_path / "kubeconfig"
        async with serving(server):
            write_kubeconfig(server, kubeconfig)
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))
                taken.listen()
                said = await self.refusal(
                    {"KUBECONFIG": str(kubeconfig)},
                    capsys,
                    disable_leader_election="true",
                    metrics_port=str(taken.getsockname()[1]),
                )

        assert "provider mycloud cannot start: nobody answers; check the address" == said


def test_memory_that_runs_short_is_told_once_until_it_does_not() -> None:
    log, entries = recording_logger()
    used = iter([50, 50, 91, 91, 95, 95, 40, 40, 99, 99])
    alarm = MemoryAlarm(100, log, lambda: next(used))

    for _ in range(5):
        alarm.check()

    assert [91, 99] == [entry["used"] for entry in entries]
    assert {"memory is running short"} == {entry["message"] for entry in entries}

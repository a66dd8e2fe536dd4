"""Who we are is said anew when a token file changes, a credential expires or is refused."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from helpers.kubeconfigs import V1, V1BETA1, plugin, saying
from karpenter.clock import SystemClock
from karpenter.kube.access.credentials import Credentials, Proof
from karpenter.kube.access.exec_plugin import run_plugin
from karpenter.kube.access.types import Certificate, ExecCommand, Identity
from karpenter.kube.errors import CredentialsError

COUNTING = """
count = int(open(sys.argv[1]).read()) + 1 if os.path.exists(sys.argv[1]) else 1
open(sys.argv[1], "w").write(str(count))
"""


class MovedClock(SystemClock):
    """The wall clock, moved on by a test."""

    def __init__(self) -> None:
        self.moved = 0.0

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.moved)

    def monotonic(self) -> float:
        return self.moved


def bearer(proof: Proof | None) -> str:
    assert proof is not None
    return dict(proof.headers)["Authorization"].removeprefix("Bearer ")


class TestTokenFiles:
    async def test_a_file_is_read_again_after_a_minute(self, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text("one\n")
        clock = MovedClock()
        credentials = Credentials(Identity(token_file=file), clock, {})
        first = bearer(await credentials.proof())
        file.write_text("two\n")
        clock.moved = 59.0
        early = bearer(await credentials.proof())
        clock.moved = 60.0
        late = bearer(await credentials.proof())

        assert ("one", "one", "two") == (first, early, late)

    async def test_a_file_that_vanishes_leaves_the_last_token(self, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text("one")
        clock = MovedClock()
        credentials = Credentials(Identity(token_file=file), clock, {})
        await credentials.proof()
        file.unlink()
        clock.moved = 100.0

        assert "one" == bearer(await credentials.proof())

    async def test_a_refused_token_is_read_again_at_once(self, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text("one")
        credentials = Credentials(Identity(token_file=file), MovedClock(), {})
        refused = await credentials.proof()
        same = await credentials.renew(refused)
        file.write_text("two")

        assert same is None
        assert "two" == bearer(await credentials.renew(refused))

    async def test_no_token_at_all_is_one_sentence(self, tmp_path: Path) -> None:
        credentials = Credentials(Identity(token_file=tmp_path / "token"), MovedClock(), {})
        with pytest.raises(CredentialsError, match="there is no token in"):
            await credentials.proof()


async def test_a_name_and_a_password_are_sent_as_such() -> None:
    credentials = Credentials(Identity(username="me", password="pw"), MovedClock(), {})

    assert Proof((("Authorization", "Basic bWU6cHc="),)) == await credentials.proof()


@pytest.mark.parametrize(
    ("identity", "what"),
    [
        pytest.param(Identity(token="hush\nhush"), "the token", id="a token of two lines"),
        pytest.param(
            Identity(impersonation=(("Impersonate-User", "a\r\nb"),)),
            "what is sent as Impersonate-User",
            id="somebody whose name has two lines",
        ),
    ],
)
async def test_what_no_header_can_hold_is_one_sentence(identity: Identity, what: str) -> None:
    with pytest.raises(CredentialsError) as caught:
        await Credentials(identity, SystemClock(), {}).proof()

    assert str(caught.value).startswith(f"{what} has a line break or another control character")
    assert "hush" not in str(caught.value)


async def test_nobody_sends_nothing() -> None:
    assert Proof() == await Credentials(Identity(), MovedClock(), {}).proof()


class TestPlugins:
    async def test_a_credential_is_kept_until_it_expires(self, tmp_path: Path) -> None:
        status = '{"token": f"t{count}", "expirationTimestamp": "2030-01-01T01:00:00Z"}'
        command = self.counting(tmp_path, status)
        clock = MovedClock()
        credentials = Credentials(Identity(exec_command=command), clock, {})
        first = bearer(await credentials.proof())
        clock.moved = 3599.0
        early = bearer(await credentials.proof())
        clock.moved = 3600.0
        late = bearer(await credentials.proof())

        assert ("t1", "t1", "t2") == (first, early, late)

    async def test_without_an_expiry_it_is_kept(self, tmp_path: Path) -> None:
        clock = MovedClock()
        command = self.counting(tmp_path, '{"token": f"t{count}"}')
        credentials = Credentials(Identity(exec_command=command), clock, {})
        await credentials.proof()
        clock.moved = 1e6

        assert "t1" == bearer(await credentials.proof())

    async def test_many_requests_at_once_ask_once(self, tmp_path: Path) -> None:
        command = self.counting(tmp_path, '{"token": f"t{count}"}')
        credentials = Credentials(Identity(exec_command=command), MovedClock(), {})
        proofs = await asyncio.gather(*(credentials.proof() for _ in range(5)))
        renewed = await asyncio.gather(*(credentials.renew(proofs[0]) for _ in range(5)))

        assert {"t1"} == {bearer(proof) for proof in proofs}
        assert {"t2"} == {bearer(proof) for proof in renewed}

    async def test_a_plugin_that_knows_nothing_newer_leaves_the_refusal(
        self, tmp_path: Path
    ) -> None:
        command = self.counting(tmp_path, '{"token": "always the same"}')
        credentials = Credentials(Identity(exec_command=command), MovedClock(), {})
        refused = await credentials.proof()

        assert await credentials.renew(refused) is None
        assert "2" == (tmp_path / "count").read_text()

    async def test_a_certificate_may_be_the_answer(self, tmp_path: Path) -> None:
        status = '{"clientCertificateData": "CERT", "clientKeyData": "KEY"}'
        command = ExecCommand(str(plugin(tmp_path / "p", saying(status))), V1)
        credentials = Credentials(Identity(exec_command=command), MovedClock(), {})

        assert Proof((), Certificate(b"CERT", b"KEY")) == await credentials.proof()

    @staticmethod
    def counting(folder: Path, status: str) -> ExecCommand:
        """A plugin that knows how often it was asked."""
        program = plugin(folder / "plugin", COUNTING + saying(status))
        return ExecCommand(str(program), V1, args=(str(folder / "count"),))


class TestRunning:
    @pytest.mark.parametrize("version", [V1, V1BETA1])
    async def test_the_plugin_is_told_what_it_wants_to_know(
        self, tmp_path: Path, version: str
    ) -> None:
        body = saying('{"token": os.environ["KUBERNETES_EXEC_INFO"]}', version)
        info = {"server": "https://a.example", "config": {"audience": "x"}}
        command = ExecCommand(
            str(plugin(tmp_path / "p", body)), version, interactive_mode="Never", cluster_info=info
        )
        answer = await run_plugin(command, {}, SystemClock())

        told = {
            "apiVersion": version,
            "kind": "ExecCredential",
            "spec": {"interactive": False, "cluster": info},
        }
        assert told == json.loads(answer.token)

    async def test_a_plugin_that_does_not_ask_is_not_told_of_the_cluster(
        self, tmp_path: Path
    ) -> None:
        body = saying('{"token": os.environ["KUBERNETES_EXEC_INFO"]}')
        command = ExecCommand(str(plugin(tmp_path / "p", body)), V1)
        answer = await run_plugin(command, {}, SystemClock(), is_terminal=lambda: False)

        assert {"interactive": False} == json.loads(answer.token)["spec"]

    async def test_arguments_and_environment_are_passed_on(self, tmp_path: Path) -> None:
        body = saying('{"token": " ".join([*sys.argv[1:], os.environ["A"], os.environ["B"]])}')
        command = ExecCommand(
            str(plugin(tmp_path / "p", body)), V1, args=("x", "y z"), env=(("B", "own"),)
        )
        answer = await run_plugin(command, {"A": "ours", "B": "replaced"}, SystemClock())

        assert "x y z ours own" == answer.token

    async def test_a_bare_name_is_found_in_the_path(self, tmp_path: Path) -> None:
        plugin(tmp_path / "login", saying('{"token": "t"}'))
        answer = await run_plugin(ExecCommand("login", V1), {"PATH": str(tmp_path)}, SystemClock())

        assert "t" == answer.token

    @pytest.mark.parametrize(
        ("body", "problem"),
        [
            pytest.param(
                'print("no login\\nplease", file=sys.stderr); sys.exit(3)',
                "failed with exit code 3: no login please",
                id="it fails",
            ),
            pytest.param('print("hello")', "something other than a credential", id="no JSON"),
            pytest.param("print('[]')", "something other than a credential", id="no object"),
            pytest.param(saying("{}"), "neither a token nor a certificate", id="an empty status"),
            pytest.param(saying("None"), "neither a token nor a certificate", id="no status"),
            pytest.param(
                saying('{"token": "t"}', V1BETA1),
                f"answered with ExecCredential of {V1BETA1}, but the kubeconfig asks for",
                id="another version",
            ),
            pytest.param(
                saying('{"clientCertificateData": "x"}'),
                "a certificate without a key",
                id="half a certificate",
            ),
            pytest.param(
                saying('{"token": "t", "expirationTimestamp": "soon"}'),
                "something other than a credential",
                id="a time nobody can read",
            ),
        ],
    )
    async def test_what_may_go_wrong(self, tmp_path: Path, body: str, problem: str) -> None:
        program = plugin(tmp_path / "login", body)
        with pytest.raises(CredentialsError) as caught:
            await run_plugin(ExecCommand(str(program), V1), {}, SystemClock())

        assert problem in str(caught.value)
        assert str(program) in str(caught.value)
        assert "\n" not in str(caught.value)

    async def test_a_missing_program_comes_with_a_hint(self) -> None:
        command = ExecCommand("no-such-login", V1, install_hint="get it from example.com")
        with pytest.raises(CredentialsError, match=r"not installed; get it from example\.com"):
            await run_plugin(command, {}, SystemClock())

    async def test_a_program_that_is_none_is_one_sentence(self, tmp_path: Path) -> None:
        program = plugin(tmp_path / "login", "")
        program.write_text("#!/no/such/interpreter\n")
        with pytest.raises(CredentialsError, match="cannot be run"):
            await run_plugin(ExecCommand(str(program), V1), {}, SystemClock())

    async def test_an_argument_no_program_can_be_given_is_one_sentence(
        self, tmp_path: Path
    ) -> None:
        program = plugin(tmp_path / "login", "")
        with pytest.raises(CredentialsError, match="cannot be run: embedded null byte"):
            await run_plugin(ExecCommand(str(program), V1, args=("a\0b",)), {}, SystemClock())

    async def test_a_plugin_that_needs_a_person_is_not_run_without_one(self) -> None:
        command = ExecCommand("login", V1, interactive_mode="Always")
        with pytest.raises(CredentialsError, match="there is no terminal"):
            await run_plugin(command, {}, SystemClock(), is_terminal=lambda: False)

    async def test_a_plugin_that_hangs_is_ended(self, tmp_path: Path) -> None:
        class Impatient(SystemClock):
            async def wait_for(self, awaitable: Any, *, seconds: float) -> Any:
                return await super().wait_for(awaitable, seconds=0)

        # Were it not ended, reading from its pipe would hold up the end of this test
        command = ExecCommand(str(plugin(tmp_path / "p", "import time; time.sleep(1000)")), V1)
        with pytest.raises(CredentialsError, match="did not answer within 60 seconds"):
            await run_plugin(command, {}, Impatient())

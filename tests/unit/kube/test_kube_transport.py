"""Requests reach the server they are meant for, whole, and failures name it in one sentence."""

import asyncio
import contextlib
import gzip
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from helpers.kubeconfigs import V1, plugin, saying
from helpers.loopback import Handler, listening
from karpenter.clock import SystemClock
from karpenter.kube.access.tls import tls_context
from karpenter.kube.access.types import Certificate, ClusterConfig, ExecCommand, Identity, Tls
from karpenter.kube.errors import ConnectionLostError, CredentialsError
from karpenter.kube.http import HttpTransport
from karpenter.kube.transport import Request
from unit.kube.certificates import Authority, new_authority
from unit.kube.test_kube_credentials import COUNTING

NODES = Request("GET", "/api/v1/nodes")


@asynccontextmanager
async def transport(config: ClusterConfig, **environment: str) -> AsyncIterator[HttpTransport]:
    made = HttpTransport(
        config, SystemClock(), user_agent="karpenter/test", environment=environment
    )
    try:
        yield made
    finally:
        await made.close()


async def echo(request: web.BaseRequest) -> web.Response:
    """Answer with what was asked."""
    body = (await request.read()).decode()
    told = {"path": request.raw_path, "method": request.method, "body": body}
    certificate = request.get_extra_info("peercert") or {}
    subject = {name: value for ((name, value),) in certificate.get("subject", ())}
    return web.json_response({**told, "headers": dict(request.headers), "subject": subject})


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on bytes until there are no more."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def ask(config: ClusterConfig, request: Request = NODES) -> Any:
    """What the server saw of a request."""
    async with transport(config) as made:
        answer = await made.send(request)
    assert 200 == answer.status
    return msgspec.json.decode(answer.body)


def plain(port: int, path: str = "") -> ClusterConfig:
    return ClusterConfig(server=f"http://127.0.0.1:{port}{path}")


class TestRequests:
    async def test_path_query_body_and_headers_arrive(self) -> None:
        request = Request(
            "PATCH",
            "/api/v1/namespaces/a%2Fb/pods/x",
            (("labelSelector", "a in (b,c)"), ("continue", "x+/=")),
            b'{"a":1}',
            "application/merge-patch+json",
        )
        async with listening(echo) as port:
            seen = await ask(plain(port, "/prefix/"), request)

        query = "labelSelector=a+in+%28b%2Cc%29&continue=x%2B%2F%3D"
        assert f"/prefix/api/v1/namespaces/a%2Fb/pods/x?{query}" == seen["path"]
        assert ("PATCH", '{"a":1}') == (seen["method"], seen["body"])
        assert "application/merge-patch+json" == seen["headers"]["Content-Type"]
        assert "application/json" == seen["headers"]["Accept"]
        assert "karpenter/test" == seen["headers"]["User-Agent"]
        assert "gzip" in seen["headers"]["Accept-Encoding"]

    async def test_without_tls_nobody_is_told_who_we_are(self) -> None:
        async with listening(echo) as port:
            seen = await ask(replace(plain(port), identity=Identity(token="secret")))

        assert "Authorization" not in seen["headers"]

    async def test_a_refusal_is_an_answer(self) -> None:
        async def refuse(request: web.BaseRequest) -> web.Response:
            return web.Response(status=429, body=b"later", headers={"Retry-After": "7"})

        async with listening(refuse) as port, transport(plain(port)) as made:
            answer = await made.send(NODES)

        assert (429, b"later", "7") == (answer.status, answer.body, answer.headers["retry-after"])

    async def test_compressed_answers_are_unpacked(self) -> None:
        async def squeeze(request: web.BaseRequest) -> web.Response:
            body = gzip.compress(b"x" * 300_000)
            return web.Response(body=body, headers={"Content-Encoding": "gzip"})

        async with listening(squeeze) as port, transport(plain(port)) as made:
            answer = await made.send(NODES)

        assert b"x" * 300_000 == answer.body

    async def test_a_write_that_is_called_off_while_it_waits_for_a_connection_is_not_sent(
        self,
    ) -> None:
        seen: list[str] = []
        answers = iter([True, False])

        async def note(request: web.BaseRequest) -> web.Response:
            seen.append(request.method)
            return web.Response()

        async with listening(note) as port, transport(plain(port)) as http:
            request = Request("POST", "/", body=b"{}", may_go=lambda: next(answers))
            await http.send(request)
            with pytest.raises(ConnectionLostError):
                await http.send(request)
            await http.send(Request("GET", "/"))

        assert ["POST", "GET"] == seen

    async def test_connections_are_used_again(self) -> None:
        peers = set()

        async def note(request: web.BaseRequest) -> web.Response:
            peers.add(request.get_extra_info("peername"))
            return web.Response(body=b"{}")

        async with listening(note) as port, transport(plain(port)) as made:
            for _ in range(5):
                await made.send(NODES)

        assert 1 == len(peers)


class TestStreams:
    @staticmethod
    def streaming(*pieces: bytes, is_cut: bool = False) -> Handler:
        """Send a body in pieces, each on its own."""

        async def stream(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse()
            response.enable_chunked_encoding()
            await response.prepare(request)
            for piece in pieces:
                await response.write(piece)
            if is_cut:
                assert request.transport is not None
                request.transport.abort()
            return response

        return stream

    @pytest.mark.parametrize(
        ("pieces", "lines"),
        [
            pytest.param([b"a\nb\n"], [b"a", b"b"], id="two lines in a piece"),
            pytest.param([b"a", b"b\nc", b"\n"], [b"ab", b"c"], id="a line in pieces"),
            pytest.param([b"a\n\n\nb\n"], [b"a", b"b"], id="empty lines are no lines"),
            pytest.param([b"a\nb"], [b"a", b"b"], id="a last line without an end"),
            pytest.param(
                [b"x" * 3_000_000 + b"\n", b"y\n"], [b"x" * 3_000_000, b"y"], id="a very long line"
            ),
        ],
    )
    async def test_lines(self, pieces: list[bytes], lines: list[bytes]) -> None:
        async with (
            listening(self.streaming(*pieces)) as port,
            transport(plain(port)) as made,
            made.stream(NODES) as stream,
        ):
            seen = [line async for line in stream.lines]

        assert lines == seen

    async def test_a_stream_that_is_cut_off_is_a_lost_connection(self) -> None:
        seen = []
        handler = self.streaming(b"a\n", b"half a li", is_cut=True)
        async with listening(handler) as port, transport(plain(port)) as made:
            with pytest.raises(ConnectionLostError, match=f"127.0.0.1:{port} was lost"):
                async with made.stream(NODES) as stream:
                    seen = [line async for line in stream.lines]

        assert [] == seen

    async def test_a_refused_stream_has_a_body(self) -> None:
        async def gone(request: web.BaseRequest) -> web.Response:
            return web.Response(status=410, body=b"too old")

        async with (
            listening(gone) as port,
            transport(plain(port)) as made,
            made.stream(NODES) as stream,
        ):
            assert (410, b"too old") == (stream.status, stream.body)
            assert [] == [line async for line in stream.lines]

    async def test_leaving_the_block_ends_the_stream_on_the_other_side(self) -> None:
        ended = asyncio.Event()

        async def endless(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            try:
                while True:
                    await response.write(b"tick\n")
                    await asyncio.sleep(0.001)
            finally:
                ended.set()

        async with listening(endless) as port, transport(plain(port)) as made:
            async with made.stream(NODES) as stream:
                await anext(stream.lines)
            async with asyncio.timeout(10):
                await ended.wait()

        assert ended.is_set()


class TestFailures:
    async def test_nobody_listens(self) -> None:
        async with listening(echo) as port:
            pass
        async with transport(plain(port, "/secret")) as made:
            with pytest.raises(ConnectionLostError) as caught:
                await made.send(NODES)
            with pytest.raises(ConnectionLostError):
                async with made.stream(NODES):
                    pass

        assert f"cannot connect to http://127.0.0.1:{port}: connection refused" == str(caught.value)
        assert "secret" not in str(caught.value)

    async def test_nobody_listens_where_a_server_is_its_own_proxy(self) -> None:
        async with listening(echo) as port:
            pass
        config = replace(plain(port), proxy=f"http://sandbox:secret@127.0.0.1:{port}")
        async with transport(config) as made:
            with pytest.raises(ConnectionLostError) as caught:
                await made.send(NODES)

        assert f"cannot connect to http://127.0.0.1:{port}: connection refused" == str(caught.value)

    async def test_an_answer_that_takes_too_long(self) -> None:
        async def never(request: web.BaseRequest) -> web.Response:
            await asyncio.get_running_loop().create_future()
            raise AssertionError

        impatient = replace(NODES, seconds=0.05)
        async with listening(never) as port, transport(plain(port)) as made:
            with pytest.raises(ConnectionLostError, match="did not answer in time"):
                await made.send(impatient)
            with pytest.raises(ConnectionLostError, match="did not answer in time"):
                async with made.stream(impatient):
                    pass

    async def test_an_answer_that_breaks_off(self) -> None:
        async def break_off(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Length": "100"})
            await response.prepare(request)
            await response.write(b"half")
            assert request.transport is not None
            request.transport.abort()
            return response

        async with listening(break_off) as port, transport(plain(port)) as made:
            with pytest.raises(ConnectionLostError, match="was lost"):
                await made.send(NODES)

    async def test_a_connection_that_closes_without_an_answer(self) -> None:
        async def close(request: web.BaseRequest) -> web.Response:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()

        async with listening(close) as port, transport(plain(port)) as made:
            with pytest.raises(ConnectionLostError, match="was lost"):
                await made.send(replace(NODES, method="POST", body=b"{}"))

    async def test_a_redirection_is_not_followed(self) -> None:
        async def redirect(request: web.BaseRequest) -> web.Response:
            return web.Response(status=302, headers={"Location": "http://evil.example/"})

        async with listening(redirect) as port, transport(plain(port)) as made:
            with pytest.raises(ConnectionLostError, match="a redirection; is it an API server"):
                await made.send(NODES)

    async def test_what_is_no_http(self) -> None:
        async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(b"220 mail.example ESMTP\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(babble, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, transport(plain(port)) as made:
            with pytest.raises(ConnectionLostError, match=f"127.0.0.1:{port} was lost"):
                await made.send(NODES)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return new_authority(tmp_path_factory.mktemp("authority"))


class TestTls:
    """The server's certificate is for ``kube.example``, though it is reached by its address."""

    @staticmethod
    def server_context(authority: Authority) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*authority.issue("kube.example"))
        context.load_verify_locations(cadata=authority.ca.decode())
        # API servers, which are written in Go, do not insist on what Python does since 3.13
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    @staticmethod
    def config(authority: Authority, port: int, **identity: Any) -> ClusterConfig:
        return ClusterConfig(
            server=f"https://127.0.0.1:{port}",
            tls=Tls(ca=authority.ca, server_name="kube.example"),
            identity=Identity(**identity),
        )

    async def test_a_token_is_sent(self, authority: Authority) -> None:
        async with listening(echo, self.server_context(authority)) as port:
            seen = await ask(self.config(authority, port, token="secret"))

        assert "Bearer secret" == seen["headers"]["Authorization"]

    async def test_a_token_goes_before_a_password_in_the_address(
        self, authority: Authority
    ) -> None:
        async with listening(echo, self.server_context(authority)) as port:
            config = self.config(authority, port, token="secret")
            seen = await ask(replace(config, server=f"https://me:password@127.0.0.1:{port}"))
            alone = self.config(authority, port)
            basic = await ask(replace(alone, server=f"https://me:password@127.0.0.1:{port}"))

        assert "Bearer secret" == seen["headers"]["Authorization"]
        assert "Basic bWU6cGFzc3dvcmQ=" == basic["headers"]["Authorization"]

    async def test_a_client_certificate_is_shown(self, authority: Authority) -> None:
        certificate, key = (path.read_bytes() for path in authority.issue("me.example"))
        async with listening(echo, self.server_context(authority)) as port:
            seen = await ask(
                self.config(authority, port, certificate=Certificate(certificate, key))
            )

        assert {"commonName": "me.example"} == seen["subject"]

    @pytest.mark.parametrize("name", ["other.example", ""])
    async def test_another_name_is_not_trusted(self, authority: Authority, name: str) -> None:
        async with listening(echo, self.server_context(authority)) as port:
            config = self.config(authority, port)
            config = replace(config, tls=replace(config.tls, server_name=name))
            async with transport(config) as made:
                with pytest.raises(ConnectionLostError, match=r"is not trusted: .*tls-server-name"):
                    await made.send(NODES)

    async def test_another_authority_is_not_trusted(self, authority: Authority) -> None:
        async with listening(echo, self.server_context(authority)) as port:
            config = replace(self.config(authority, port), tls=Tls(server_name="kube.example"))
            async with transport(config) as made:
                with pytest.raises(ConnectionLostError, match="check certificate-authority"):
                    await made.send(NODES)

    async def test_who_wants_no_checks_gets_none(self, authority: Authority) -> None:
        async with listening(echo, self.server_context(authority)) as port:
            config = replace(self.config(authority, port), tls=Tls(is_unchecked=True))
            seen = await ask(config)

        assert "/api/v1/nodes" == seen["path"]

    async def test_a_refused_credential_is_renewed_once(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        tokens: list[str] = []

        async def accept_second(request: web.BaseRequest) -> web.Response:
            tokens.append(request.headers["Authorization"])
            return web.Response(status=200 if tokens[-1] == "Bearer t2" else 401, body=b"ok\n")

        program = plugin(tmp_path / "p", COUNTING + saying('{"token": f"t{count}"}'))
        command = ExecCommand(str(program), V1, args=(str(tmp_path / "count"),))
        async with listening(accept_second, self.server_context(authority)) as port:
            config = self.config(authority, port, exec_command=command)
            async with transport(config) as made:
                answer = await made.send(NODES)
            (tmp_path / "count").unlink()
            async with transport(config) as made, made.stream(NODES) as stream:
                lines = [line async for line in stream.lines]

        assert 200 == answer.status
        assert [b"ok"] == lines
        assert ["Bearer t1", "Bearer t2"] * 2 == tokens

    async def test_a_refusal_that_stays_is_handed_on(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        asked = []

        async def refuse(request: web.BaseRequest) -> web.Response:
            asked.append(request.path)
            return web.Response(status=401, body=b"who?")

        async with (
            listening(refuse, self.server_context(authority)) as port,
            transport(self.config(authority, port, token="old")) as made,
        ):
            answer = await made.send(NODES)

        assert (401, 1) == (answer.status, len(asked))

    async def test_a_proxy_lets_us_through_to_the_server(self, authority: Authority) -> None:
        tunnels: list[str] = []

        async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            tunnels.append(head.split(" ")[1])
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))

        async with listening(echo, self.server_context(authority)) as port:
            server = await asyncio.start_server(proxy, "127.0.0.1", 0)
            config = replace(
                self.config(authority, port, token="secret"),
                server="https://far.example:6443",
                proxy=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}",
            )
            async with server:
                seen = await ask(config)

        assert ["far.example:6443"] == tunnels
        assert "Bearer secret" == seen["headers"]["Authorization"]

    async def test_a_proxy_that_refuses_is_named(self) -> None:
        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        proxy_port = server.sockets[0].getsockname()[1]
        config = ClusterConfig("https://far.example:6443", proxy=f"http://127.0.0.1:{proxy_port}")
        async with server, transport(config) as made:
            with pytest.raises(
                ConnectionLostError,
                match=r"the proxy on the way to https://far\.example:6443 .*403 Forbidden",
            ):
                await made.send(NODES)

    def test_an_unusable_authority_is_one_sentence(self) -> None:
        with pytest.raises(CredentialsError, match="certificate-authority holds no usable"):
            tls_context(Tls(ca=b"nonsense"), None)

    def test_an_unusable_certificate_is_one_sentence(self) -> None:
        with pytest.raises(CredentialsError, match="cannot be used together"):
            tls_context(Tls(), Certificate(b"nonsense", b"nonsense"))

    def test_a_certificate_and_a_key_that_do_not_match(self, authority: Authority) -> None:
        one, other = authority.issue("one.example"), authority.issue("other.example")
        with pytest.raises(CredentialsError, match=r"cannot be used together: .*mismatch"):
            tls_context(Tls(), Certificate(one[0].read_bytes(), other[1].read_bytes()))

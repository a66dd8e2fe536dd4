"""AWS and a Kubernetes API as one server process, so that only the provider is measured.

AWS is the simulated account of the sandbox behind HTTP, in the protocols of botocore's own service
models; long lists come page by page, as EC2 sends them. Answers about instance types and prices are
cached, because the time moto takes to build them is not what is measured.
"""

import asyncio
import importlib
import json
import re
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from moto.core.parse import PROTOCOL_PARSERS
from moto.core.serialize import get_serializer_class
from moto.core.utils import get_service_model

from karpenter.clock import SystemClock
from karpenter.cloud.aws.simulated.account import SimulatedAccount, simulated_account
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.server.http import Server, new_token, serving, write_kubeconfig

CLUSTER: Final = "sandbox"
ADDRESS: Final = "aws.address"  # the file that holds the URL once everything answers
KUBECONFIG: Final = "kubeconfig"

_botocore: Any = importlib.import_module("botocore")  # it has no type hints
_exceptions: Any = importlib.import_module("botocore.exceptions")

_SCOPE: Final = re.compile(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/")
_EKS_CLUSTER: Final = re.compile(r"/clusters/([^/]+)")
_PAGED: Final = {
    "DescribeInstanceTypes": "InstanceTypes",
    "DescribeInstanceTypeOfferings": "InstanceTypeOfferings",
    "DescribeSpotPriceHistory": "SpotPriceHistory",
    "GetProducts": "PriceList",
}
_PAGE: Final = 100
_JSON: Final = "application/x-amz-json-1.1"

Answer = tuple[int, str, bytes]


class Front:
    """Reads requests, lets the account answer them, and writes the answers."""

    def __init__(self, account: SimulatedAccount) -> None:
        self._account = account
        self._written: dict[tuple[str, bytes], Answer] = {}

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Answer one request."""
        found = _SCOPE.search(headers.get("authorization", ""))
        service = found[1] if found else "ec2"
        operation, parameters = _read(service, path, headers, body)
        known = self._written.get((operation, body))
        if known is not None:
            return known
        method = getattr(self._account.session.client(service), _botocore.xform_name(operation))
        try:
            result = _page(operation, parameters, method(**parameters))
        except _exceptions.ClientError as error:
            return _refusal(service, error.response)
        written = _write(service, operation, result)
        if operation in _PAGED:
            self._written[operation, body] = written
        return written


def _read(
    service: str, path: str, headers: dict[str, str], body: bytes
) -> tuple[str, dict[str, Any]]:
    target = headers.get("x-amz-target")
    if target:
        return target.rpartition(".")[2], json.loads(body or b"{}")
    cluster = _EKS_CLUSTER.fullmatch(urlsplit(path).path)
    if cluster:
        return "DescribeCluster", {"name": unquote(cluster[1])}
    values = dict(parse_qsl(body.decode(), keep_blank_values=True))
    model = get_service_model(service).operation_model(values["Action"])
    parser = PROTOCOL_PARSERS[model.service_model.protocol](model)
    request: Any = {"values": values}
    return values["Action"], dict(parser.parse(request))


def _page(operation: str, parameters: dict[str, Any], result: Any) -> dict[str, Any]:
    """One page of a long list, in place of all of it."""
    whole = {key: value for key, value in result.items() if key != "ResponseMetadata"}
    items = _PAGED.get(operation)
    if items is None:
        return whole
    start = int(parameters.get("NextToken") or 0)
    end = start + int(parameters.get("MaxResults") or _PAGE)
    rest = {"NextToken": str(end)} if end < len(whole[items]) else {}
    return {**whole, items: whole[items][start:end], **rest}


def _write(service: str, operation: str, result: dict[str, Any]) -> Answer:
    model = get_service_model(service).operation_model(operation)
    serializer = get_serializer_class(service, model.service_model.protocol)(model)
    written = serializer.serialize(result)
    content = written["headers"].get("Content-Type", "text/xml")
    body = written["body"]
    return written["status_code"], content, body if isinstance(body, bytes) else body.encode()


def _refusal(service: str, response: dict[str, Any]) -> Answer:
    told = response["Error"]
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
    if get_service_model(service).protocol in ("json", "rest-json"):
        body = json.dumps({"__type": told["Code"], "message": told["Message"]})
        return status, _JSON, body.encode()
    inner = (
        f"<Error><Code>{escape(told['Code'])}</Code>"
        f"<Message>{escape(told['Message'])}</Message></Error>"
    )
    if service == "ec2":
        text = f"<Response><Errors>{inner}</Errors><RequestID>none</RequestID></Response>"
    else:
        text = f"<ErrorResponse>{inner}<RequestId>none</RequestId></ErrorResponse>"
    return status, "text/xml", text.encode()


def _handler(answer: Callable[[str, dict[str, str], bytes], Answer]) -> type:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {key.lower(): value for key, value in self.headers.items()}
            status, content, body = answer(self.path, headers, self.rfile.read(length))
            self.send_response(status)
            self.send_header("Content-Type", content)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815 the same

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the same
            pass

    return Handler


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


async def serve(folder: Path) -> None:
    """Serve until killed; the files in ``folder`` appear once everything answers."""
    clock = SystemClock()
    cluster = Cluster(clock)
    await cluster.start()
    server = Server(cluster.api, host="127.0.0.1", port=0, token=new_token())
    with simulated_account(clock, cluster=CLUSTER) as account:
        listener = _Listener(("127.0.0.1", 0), _handler(Front(account).answer))
        Thread(target=listener.serve_forever, daemon=True).start()
        async with serving(server):
            write_kubeconfig(server, folder / KUBECONFIG)
            (folder / ADDRESS).write_text(f"http://127.0.0.1:{listener.server_port}", "ascii")
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))

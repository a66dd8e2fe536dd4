"""Secrets planted everywhere at once, and everything read that a program writes: none of them comes out.

Each planted secret names its place, so a failure says what came from where. That the secrets were in use,
and the outputs not empty, is asserted too: nothing can be found where nothing was written.
"""

import asyncio
import base64
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from e2e.commands.test_controller_process import (
    PATIENCE,
    Controller,
    controller,
    free_port,
    sandbox,
)
from helpers.autoscaler import deployment, kwok_class, kwok_pool
from helpers.aws_sandbox import aws_sandbox, ec2_pool
from helpers.clusters import in_virtual_time
from helpers.real_cluster import until
from karpenter.decision_log.record import encoded
from karpenter_sandbox.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.case("OPS-31")]

Json = dict[str, Any]
PROFILES = ("", "/cmdline", "/profile?seconds=0.5", "/heap", "/heap", "/goroutine", "/threadcreate")
KEYS_OF_AWS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
OF_THE_SHELL = ("DATABASE_PASSWORD", "GITHUB_TOKEN")
PLUGIN = '#!/bin/sh\necho \'{"kind": "ExecCredential", "status": {"token": ["SECRET"]}}\'\n'


class Garden:
    """Where secrets are planted, and looked for."""

    def __init__(self) -> None:
        self._planted: dict[str, str] = {}
        self._read: dict[str, str] = {}

    def plant(self, place: str) -> str:
        """A secret for a place; letters and digits, so that it looks the same wherever it is written."""
        return self.know(place, f"planted{secrets.token_hex(12)}")

    def know(self, place: str, secret: str) -> str:
        """Count something as a secret."""
        self._planted[place] = secret
        return secret

    def read(self, what: str, text: str) -> None:
        """Take in what a program wrote."""
        assert text, f"{what} is empty"
        self._read[what] = text

    def found(self) -> list[str]:
        """Which secrets came out, and where."""
        return [
            f"{place} in {what}"
            for what, text in self._read.items()
            for place, secret in self._planted.items()
            if any(form in text for form in forms(secret))
        ]


def forms(secret: str) -> Iterable[str]:
    """A secret as it is, and in base64 wherever it stands in what was encoded."""
    yield secret
    for offset in range(3):
        coded = base64.b64encode(b" " * offset + secret.encode()).decode()
        yield coded[4 if offset else 0 : -4]


@pytest.fixture
def garden() -> Garden:
    return Garden()


def test_a_secret_is_found_in_any_form(garden: Garden) -> None:
    secret = garden.plant("a place")
    garden.read("nothing", "text")
    garden.read("plain", f"error: password={secret}!")
    for offset in range(3):
        garden.read(f"coded {offset}", base64.b64encode(b"x" * offset + secret.encode()).decode())

    assert ["plain", *(f"coded {offset}" for offset in range(3))] == [
        each.removeprefix("a place in ") for each in garden.found()
    ]


def planted_objects(garden: Garden) -> list[Json]:
    """Objects of tenants that hold secrets in every place where people put them."""
    secret = garden.plant("Secret")
    data = base64.b64encode(secret.encode()).decode()
    objects: list[Json] = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "tokens"},
            "data": {"token": data},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings"},
            "data": {"password": garden.plant("ConfigMap")},
        },
    ]
    # One that gets a node, one that no machine is large enough for, one with a volume that is missing
    for name, cpu in (("small", "1"), ("huge", "5000"), ("lost", "1")):
        workload = deployment(name, 1, cpu=cpu)
        template = workload["spec"]["template"]
        template["metadata"]["annotations"] = {
            "example.com/key": garden.plant(f"annotation of {name}")
        }
        (container,) = template["spec"]["containers"]
        container["env"] = [{"name": "PASSWORD", "value": garden.plant(f"env of {name}")}]
        container["command"] = ["serve", "--password", garden.plant(f"arguments of {name}")]
        container["readinessProbe"] = {
            "httpGet": {
                "port": 80,
                "httpHeaders": [
                    {"name": "Authorization", "value": garden.plant(f"probe of {name}")}
                ],
            }
        }
        if name == "lost":
            claim = {"claimName": "missing"}
            template["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": claim}]
        objects.append(workload)
    return objects


@asynccontextmanager
async def sinks(garden: Garden, folder: Path) -> AsyncIterator[tuple[Path, list[str]]]:
    """A configuration whose sinks fail in every way, with secrets in addresses and keys, and who asked."""
    asked: list[str] = []

    async def fail(request: web.Request) -> web.Response:
        garden.read(f"message {len(asked)}", (await request.read()).decode())
        asked.append(str(request.rel_url))
        if "moved" in request.path:
            return web.Response(status=302, headers={"Location": str(request.url)})
        return web.Response(status=500, text=f"no such hook: {request.url}")

    runner = web.AppRunner(web.Application())
    runner.app.router.add_post("/{tail:.*}", fail)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    local, foreign = f"http://127.0.0.1:{port}", "https://hooks.example.invalid"
    addresses = {
        "broken": f"{local}/hooks/{garden.plant('path of a webhook')}?token={garden.plant('query')}",
        "moved": f"{local}/moved/{garden.plant('path of a webhook that moved')}",
        "closed": f"http://user:{garden.plant('password in an address')}@127.0.0.1:{free_port()}/",
        "slack": f"{foreign}/services/{garden.plant('path of Slack')}",
    }
    key = folder / "key"
    key.write_text(garden.plant("key of signatures"))
    listed = []
    for name, address in addresses.items():
        file = folder / name
        file.write_text(address)
        sink: Json = {"name": name, "type": "slack" if name == "slack" else "webhook"}
        if name == "broken":
            sink["secretFile"] = str(key)
        listed.append({**sink, "urlFile": str(file), "match": {"minSeverity": "info"}})
    config = folder / "notifications.yaml"
    config.write_text(yaml.safe_dump({"sinks": listed}))
    try:
        yield config, asked
    finally:
        await runner.cleanup()


async def ran(garden: Garden, kubeconfig: Path, *words: str | Path) -> int:
    """Run the program, and take in all it prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "karpenter", *words),
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()
    garden.read(f"{' '.join(map(str, words))} with {kubeconfig.name}", (out + err).decode())
    assert b"Traceback" not in err, err
    return process.returncode or 0


def written_by_controllers(cluster: Cluster) -> str:
    """Everything in the cluster that is not the tenants': events, and what controllers keep on objects."""
    kept = (
        ("", "events"),
        ("", "nodes"),
        ("karpenter.sh", "nodepools"),
        ("karpenter.sh", "nodeclaims"),
        ("karpenter.kwok.sh", "kwoknodeclasses"),
        ("coordination.k8s.io", "leases"),
    )
    return json.dumps([list(cluster.store.list(*each)) for each in kept])


async def test_no_secret_comes_out_of_the_controller_or_a_command(
    garden: Garden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*KEYS_OF_AWS, *OF_THE_SHELL):
        monkeypatch.setenv(name, garden.plant(name))
    proxy = f"http://user:{garden.plant('password of the proxy')}@127.0.0.1:{free_port()}"
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    # In a file: a pipe that is not read while commands run would fill and block
    log, records = tmp_path / "log", tmp_path / "decisions.jsonl"
    async with (
        sinks(garden, tmp_path) as (config, asked),
        sandbox(tmp_path) as (cluster, kubeconfig),
    ):
        address = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        garden.know("token of the sandbox", address.rpartition("/")[2])
        for obj in (kwok_class(), kwok_pool("default"), *planted_objects(garden)):
            await cluster.client.create(obj, namespace="default")
        flags = (
            *("--log-level=debug", "--enable-profiling", "--batch-idle-duration=100ms"),
            *(f"--decision-log={records}", f"--notifications-config={config}"),
            f"--log-output-paths={log}",
        )
        async with controller(kubeconfig, *flags) as running:
            await logged(log, "initialized nodeclaim")
            await logged(log, "notification not delivered")
            await commands(garden, kubeconfig, config)
            await endpoints(garden, running)
            running.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                out, err = await running.process.communicate()
        garden.read("the log", log.read_text("utf-8") + (out + err).decode())
        garden.read("the cluster", written_by_controllers(cluster))
    garden.read("decision records", records.read_text())
    await errors(garden, kubeconfig, tmp_path)

    assert 0 == running.process.returncode
    assert asked
    assert "FailedScheduling" in written_by_controllers(cluster)
    assert [] == garden.found()


async def logged(log: Path, message: str) -> None:
    """Wait until a line of a log has a message."""
    await asyncio.to_thread(
        until, lambda: f'"{message}"' in read(log), f"a line {message!r}", seconds=PATIENCE
    )


def read(file: Path) -> str:
    """What is in a file by now."""
    return file.read_text("utf-8") if file.exists() else ""


async def commands(garden: Garden, kubeconfig: Path, config: Path) -> None:
    """Commands that succeed, on a live cluster."""
    assert 0 == await ran(garden, kubeconfig, "plan")
    assert 0 == await ran(garden, kubeconfig, "plan", "-o", "json")
    for kind, name in (("deployment", "huge"), ("deployment", "lost"), ("nodepool", "default")):
        assert 0 == await ran(garden, kubeconfig, "explain", kind, name)
    await ran(garden, kubeconfig, "crds", "migrate", "--dry-run")
    checking = ("controller", "--check-notifications", config)
    assert 0 == await ran(garden, kubeconfig, *checking)
    for sink in ("broken", "moved", "closed", "slack"):
        assert 0 != await ran(garden, kubeconfig, *checking, "--send-test", sink)


async def endpoints(garden: Garden, running: Controller) -> None:
    """Everything a controller serves."""
    for port, path in (
        (running.metrics_port, "/metrics"),
        (running.health_port, "/healthz"),
        (running.health_port, "/readyz?verbose"),
        *((running.metrics_port, f"/debug/pprof{each}") for each in PROFILES),
    ):
        status, text = await running.ask(port, path)
        assert 200 == status, path
        garden.read(path, text)


async def errors(garden: Garden, kubeconfig: Path, folder: Path) -> None:
    """Commands that fail: the server is gone, credentials are broken, files are not what they should be."""
    for file in broken_kubeconfigs(garden, kubeconfig, folder):
        for words in (("plan",), ("controller", "--leader-election-namespace=a")):
            assert 0 != await ran(garden, file, *words)
    for file in bad_files(garden, folder):
        await ran(garden, kubeconfig, "plan", file)


def broken_kubeconfigs(garden: Garden, like: Path, folder: Path) -> Iterator[Path]:
    """Kubeconfigs that lead to no server, most of them because something in them is wrong."""
    good = yaml.safe_load(like.read_text("utf-8"))
    plugin = folder / "plugin"
    plugin.write_text(PLUGIN.replace("SECRET", garden.plant("answer of a plugin")))
    plugin.chmod(0o755)
    run = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(plugin),
        "interactiveMode": "Never",
        "env": [{"name": "TOKEN", "value": garden.plant("environment of a plugin")}],
    }
    users: dict[str, Json] = {
        "gone": {"token": garden.plant("token of a kubeconfig")},
        "typed": {"token": [garden.plant("token in a list")]},
        "keyed": {
            "client-key-data": garden.plant("key that is not base64"),
            "client-certificate-data": "x",
        },
        "basic": {"username": "me", "password": [garden.plant("password in a list")]},
        "plugged": {"exec": run},
    }
    for name, user in users.items():
        file = folder / f"{name}.kubeconfig"
        server = f"https://me:{garden.plant(f'password of {name}')}@127.0.0.1:{free_port()}/"
        file.write_text(
            yaml.safe_dump({
                **good,
                "users": [{"name": each["name"], "user": user} for each in good["users"]],
                "clusters": [{**each, "cluster": {"server": server}} for each in good["clusters"]],
            })
        )  # fmt: skip
        yield file
    nowhere = {"server": f"https://me:{garden.plant('password of no server')}@host:none/"}
    file = folder / "nowhere.kubeconfig"
    file.write_text(
        yaml.safe_dump({**good, "clusters": [{**good["clusters"][0], "cluster": nowhere}]})
    )
    yield file
    torn = folder / "torn.kubeconfig"
    torn.write_text(f"users: [{{token: '{garden.plant('token in a torn file')}\n")
    yield torn


def bad_files(garden: Garden, folder: Path) -> Iterator[Path]:
    """Manifests that are not what they should be, beside a secret."""
    for name, text in {
        "secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {a: SECRET}\nstringData: 1\n",
        "env.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n"
        "  - {name: a, image: a, env: [{name: A, value: [SECRET]}]}\n",
        "annotation.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {a: [SECRET]}}\n",
        "torn.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: 'SECRET\n",
    }.items():
        file = folder / name
        file.write_text(text.replace("SECRET", garden.plant(name)))
        yield file


@in_virtual_time
async def test_no_secret_comes_out_of_the_provider_for_aws() -> None:
    garden = Garden()
    script = f"#!/bin/bash\nexport TOKEN={garden.plant('user data')}\n"
    keys = {name: garden.plant(name) for name in KEYS_OF_AWS}
    async with aws_sandbox(ec2_pool(), environment=keys) as box:
        run = box.run
        run.expects_failures = True
        await box.change_class(userData=script, tags={"purpose": garden.plant("tag")})
        await run.until(lambda: bool(box.providers))
        faults = box.account.faults
        faults.fail("CreateLaunchTemplate", "InvalidUserData.Malformed")
        faults.throttle("CreateLaunchTemplate", times=2)
        faults.lose_answer("CreateFleet", times=2)
        faults.fail("CreateFleet", "UnauthorizedOperation")
        await run.apply(deployment("app", 3))
        await run.until(lambda: len(run.running) == 3, seconds=3600)
        given = [made.parameters for made in box.calls if made.operation == "CreateLaunchTemplate"]
        garden.read("the log", repr(run.lines))
        garden.read("events", repr(run.events))
        garden.read("metrics", run.metrics.exposition().decode())
        garden.read("records", repr([encoded(record) for record in run.decisions.newest()]))
        claims = run.objects("karpenter.sh", "nodeclaims")
        status = [each["status"] for each in run.objects("karpenter.k8s.aws", "ec2nodeclasses")]
        # Tags are no secrets (the whole account can read them), but they must stay in the spec
        garden.read("objects", json.dumps([claims, run.nodes, status]))

    coded = given[-1]["LaunchTemplateData"]["UserData"]
    assert script.split("=")[1].strip() in base64.b64decode(coded).decode()
    assert [] == garden.found()

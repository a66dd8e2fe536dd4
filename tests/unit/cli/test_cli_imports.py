"""Commands import what they need and no more: starting is most of what a short command does."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# What no command needs that only reads files
NEVER = {
    "aiohttp",
    "boto3",
    "botocore",
    "hypothesis",
    "karpenter.cloud.aws.assembly",
    "karpenter.cloud.aws.provider",
    "karpenter.controllers",
    "karpenter.disruption.rebalance.search",  # no pool of the examples is rebalanced
    "karpenter.kube.http",
    "karpenter_sandbox.cluster",
    "karpenter_sandbox.server.http",
    "karpenter_sandbox.store.store",
    "karpenter.telemetry",
    "moto",
    "prometheus_client",
    "requests",
    "unittest",
}
# and what only some do
PLANNING = {
    "karpenter.disruption",
    "karpenter_sandbox.kinds",  # whose rules for Kubernetes' own kinds are those for files
    "karpenter.scheduling.solve",
    "karpenter.state.cluster",
}
READING = {"jsonschema_rs", "karpenter.manifests", "re2", "yaml"}
AWS = {"asyncio", "karpenter.cloud.aws", "structlog"}
EXAMPLE = ["examples/plan/cluster.yaml", "examples/plan/workloads.yaml"]
# One after the other in one process, so that each may have what those before it had
COMMANDS: tuple[tuple[list[str], set[str]], ...] = (
    (["--version"], NEVER | AWS | PLANNING | READING | {"msgspec", "pydantic", "rich.console"}),
    (["--help"], NEVER | AWS | PLANNING | READING | {"msgspec", "pydantic"}),
    (["plan", "--help"], NEVER | AWS | PLANNING | READING | {"msgspec"}),
    (["crds", "nodepools"], NEVER | AWS | PLANNING),
    (["convert", "examples/legacy/provisioner.yaml"], NEVER | AWS | PLANNING),
    (["explain", "nodepool", "general", *EXAMPLE], NEVER | AWS),
    (["plan", "--provider", "kwok", *EXAMPLE], NEVER | AWS),
    (["plan", "--provider", "aws", "examples/aws-plan"], NEVER),
)
RUN = """
import io, json, sys
from karpenter.cli.app import main

told, report = sys.stdout, []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["karpenter", *arguments]
    sys.stdout = io.TextIOWrapper(io.BytesIO(), "utf-8")
    sys.stderr = io.StringIO()
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    report.append([code, sys.stderr.getvalue(), list(sys.modules)])
json.dump(report, told)
"""


def test_commands_import_nothing_they_do_not_need() -> None:
    asked = json.dumps([arguments for arguments, _ in COMMANDS])
    done = subprocess.run(
        [sys.executable, "-c", RUN, asked], cwd=ROOT, capture_output=True, text=True, check=True
    )
    report = json.loads(done.stdout)
    for (arguments, unwanted), (code, errors, modules) in zip(COMMANDS, report, strict=True):
        command = " ".join(arguments)
        assert (command, 0, []) == (
            command,
            code,
            [line for line in errors.splitlines() if line.startswith("error")],
        )
        assert (command, []) == (command, sorted(unwanted.intersection(modules)))

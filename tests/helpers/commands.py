"""Run the program in this process, and small manifests to run it on."""

from dataclasses import dataclass

from typer.testing import CliRunner

from karpenter.cli.app import app

PROVISIONER = """\
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: default
spec:
  providerRef:
    name: shop
  ttlSecondsAfterEmpty: 30
"""
BROKEN_PROVISIONER = """\
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: broken
spec:
  providerRef:
    name: shop
  ttlSecondsAfterEmpty: 30
  consolidation:
    enabled: true
"""
NODE_POOL = """\
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: general
spec:
  template:
    spec:
      nodeClassRef: {apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: shop}
      requirements: []
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run of the program ended."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("error: ")]

    @property
    def warnings(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("warning: ")]


def run(*args: str, stdin: str | bytes | None = None) -> Ran:
    """Run ``karpenter`` with arguments; a traceback fails the test."""
    result = CliRunner().invoke(app, list(args), input=stdin, prog_name="karpenter")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)

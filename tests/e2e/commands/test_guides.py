"""Guides that are followed from beginning to end on a sandbox, command by command."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from helpers import pages
from helpers.shell import PATIENCE, Shell, wait_for

pytestmark = pytest.mark.slow

_STAYS_OPEN: Final = re.compile(r"(?:\w+=\S+ )*karpenter (?:controller|sandbox --)")
# What the placeholders of pages stand for
_SOME: Final = {
    "NODE": "nodes -l karpenter.sh/nodepool",
    "CLAIM": "nodeclaims",
    "POD": "pods --field-selector=status.phase=Pending",
}
# What has to be in a cluster for a guide to have an effect
_SCENES: Final = {
    # what Karpenter leaves in a cluster besides nodes
    "docs/migrate-karpenter.md": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: karpenter, namespace: kube-system}
spec:
  replicas: 2
  selector: {matchLabels: {app: karpenter}}
  template:
    metadata: {labels: {app: karpenter}}
    spec: {containers: [{name: controller, image: example.com/karpenter:v1}]}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: karpenter-leader-election, namespace: kube-system}
spec: {holderIdentity: karpenter-7f8d_c0ffee, leaseDurationSeconds: 15}
""",
    # a claim of another provider, which no controller of the sandbox handles
    "docs/uninstall.md": """
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: left-behind, finalizers: [karpenter.sh/termination]}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gone}
  requirements: []
""",
}
# Commands that list such events may print none
_RARE: Final = ("reason=InsufficientCapacityError", "reason=DisruptionTerminating", "type=Warning")


def steps(page: str) -> Iterator[pages.Shown]:
    """What a guide tells the reader to type, the start of the sandbox first."""
    shown = [each for each in pages.commands() if each.page == page]
    if pages.GUIDES[page]:
        yield pages.Shown(page, pages.GUIDES[page], "")
    yield from (each for each in shown if str(each) not in pages.RUN_ELSEWHERE)


def name_of_some(shell: Shell, selection: str) -> str:
    """The name of an object that a placeholder of a page may stand for."""

    def found() -> list[str]:
        listed = shell.type(f"kubectl get {selection} -o json")
        return [each["metadata"]["name"] for each in json.loads(listed)["items"]]

    wait_for(lambda: bool(found()), selection)
    return found()[0]


@pytest.mark.case("OPS-37")
@pytest.mark.parametrize("page", sorted(pages.GUIDES))
def test_a_guide_can_be_followed(page: str, kubectl: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    for name, text in pages.files():
        (tmp_path / name).write_text(text, "utf-8")
    (tmp_path / "scene.yaml").write_text(_SCENES.get(page, ""), "utf-8")
    named: dict[str, str] = {}
    with ExitStack() as opened:
        for number, shown in enumerate(steps(page)):
            if _STAYS_OPEN.match(shown.command):
                process = opened.enter_context(shell.background(f"terminal-{number}", shown))
                if " sandbox " in shown.name:
                    config = tmp_path / "karpenter.kubeconfig"
                    process.wait_until(config.exists, seconds=PATIENCE)
                continue
            for word, found in _SOME.items():
                if word not in named and re.search(rf"\b{word}\b", shown.name):
                    named[word] = name_of_some(shell, found)
            printed = shell.follow(shown, **named)
            looks = shown.name.startswith("kubectl get ") and ">" not in shown.name
            if looks and not shown.name.endswith(_RARE):
                assert bool(printed) is not shown.command.endswith("# none"), str(shown)


def test_only_a_few_commands_of_guides_are_not_run() -> None:
    """Those need what no test has, such as an account; a page of them would be no guide."""
    shown = [each for each in pages.commands() if each.page in pages.GUIDES]
    skipped = [each for each in shown if str(each) in pages.RUN_ELSEWHERE]

    assert len(skipped) <= 0.15 * len(shown)

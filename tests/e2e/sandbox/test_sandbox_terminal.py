"""``karpenter sandbox`` at a terminal: decisions stay, the nodes stay, and every column is seen."""

import re
import signal
import sys
from pathlib import Path

import pytest

from helpers.terminal import Terminal

SIZES = [
    pytest.param(80, 24, id="80x24"),
    pytest.param(120, 40, id="120x40", marks=pytest.mark.storm),  # the same once more
]
EVENT = re.compile(r"^\d\d:\d\d:\d\d [ !] \w+/", re.MULTILINE)
# One pool whose machines join at once, and one whose machines take longer than any test
MANIFESTS = "\n---\n".join(
    f"""\
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {{name: {name}}}
spec: {{nodeRegistrationDelay: {delay}}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {name}}}
spec:
  template:
    spec:
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: {name}}}
      requirements:
      - {{key: node.kubernetes.io/instance-type, operator: In, values: [c-8x-amd64-linux]}}
      expireAfter: Never
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default}}
spec:
  nodeSelector: {{karpenter.sh/nodepool: {name}}}
  containers:
  - {{name: main, image: pause, resources: {{requests: {{cpu: "5"}}}}}}"""
    for name, delay in (("quick", "0s"), ("slow", "1h"))
)


def sandbox(folder: Path, columns: int, lines: int, *options: str) -> Terminal:
    command = [sys.executable, "-m", "karpenter", "sandbox", *options]
    return Terminal(command, columns=columns, lines=lines, folder=folder)


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_decisions_and_the_last_table_stay_after_control_c(
    tmp_path: Path, columns: int, lines: int
) -> None:
    (tmp_path / "both.yaml").write_text(MANIFESTS)
    with sandbox(tmp_path, columns, lines, "--load", "both.yaml", "--speed", "10") as terminal:
        terminal.see("is ready for pods")
        terminal.see("Registering")
        terminal.see("2 pods: 1 running")
        terminal.press_control_c()
        code = terminal.wait()
    everything, seen = terminal.screen.everything, terminal.screen.visible

    assert 0 == code
    said = "\n".join(everything[: _table(everything)])
    assert "2 pods have no place: 2 new nodes needed" in said
    assert re.search(r"launched slow-\w{5}: c-8x-amd64-linux, spot, in test-zone-", said)
    assert re.search(r"quick-\w{5} is ready for pods", said)
    assert not EVENT.search(said)  # events are not shown as decisions
    # The redrawn table appears once, with all columns
    head, claim, node = (line.split() for line in seen[_table(seen) :][:3])
    names = ["NODE", "STATUS", "TYPE", "ZONE", "PODS", "CPU", "MEM", "$/HOUR", "AGE"]
    assert names == head
    assert 9 == len(claim) == len(node)
    assert re.fullmatch(r"slow-\w{5}", claim[0])
    assert ["Registering", "-", "-", "-", "0.1520"] == [claim[1], *claim[4:8]]
    assert re.fullmatch(r"kwok-quick\S*\d", node[0])
    assert ["Ready", "1", "63%"] == [node[1], *node[4:6]]
    assert claim[3].startswith("test-z")
    assert claim[3][-1] in "abcd"
    assert 1 == sum(line.split()[:1] == ["NODE"] for line in everything)
    assert 1 == sum("1 on its way · $0.3041/h" in line for line in everything)
    assert EVENT.search("\n".join(seen[_table(seen) :]))
    assert ["", "The cluster is stopped; nothing of it is kept.", ""] == everything[-3:]
    assert not (tmp_path / "karpenter.kubeconfig").exists()


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_keys_and_another_size_spoil_nothing_and_sigterm_leaves_the_terminal_in_order(
    tmp_path: Path, columns: int, lines: int
) -> None:
    # Without the long address of the dashboard everything has room on the smaller screen, too
    options = ("--nodes", "2", "--no-controllers", "--no-dashboard")
    with sandbox(tmp_path, columns, lines, *options) as terminal:
        terminal.see("2 nodes, ")
        assert not terminal.shows_keys
        terminal.press("\n\nkubectl get nodes\n")
        terminal.see("2 nodes, 2 ready")
        terminal.resize(columns - 20, lines - 4)
        terminal.press("\n")
        terminal.send(signal.SIGTERM)
        code = terminal.wait()
        assert terminal.shows_keys
    everything, seen = terminal.screen.everything, terminal.screen.visible

    assert 0 == code
    assert not any("kubectl" in line for line in everything)
    assert 1 == sum(line.split()[:1] == ["NODE"] for line in seen)
    assert 1 == sum("2 nodes, " in line for line in seen)
    assert 1 == sum("export KUBECONFIG=" in line for line in everything)
    assert ["", "The cluster is stopped; nothing of it is kept.", ""] == everything[-3:]


@pytest.mark.storm
@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_the_demonstration_can_be_read_when_it_is_over(
    tmp_path: Path, columns: int, lines: int
) -> None:
    with sandbox(tmp_path, columns, lines, "--demo", "--speed", "30") as terminal:
        code = terminal.wait()
    everything = terminal.screen.everything

    assert 0 == code
    told = [line for line in everything if line.startswith(("$ ", "→ "))]
    assert [f"$ kubectl scale deployment inflate --replicas={n}" for n in (5, 20, 0)] == told[::2]
    assert ["5 pods: 5 running", "20 pods: 20 running", "0 pods"] == [
        line.rpartition(" · ")[2] for line in told[1::2]
    ]
    assert 2 == sum("removing 1 node because empty" in line for line in everything)
    *_, summary, _, hint, _, farewell, _ = everything
    assert "0 nodes, 0 ready · 0 pods" == summary
    assert "no nodes" in hint
    assert "That was the demo; karpenter sandbox --example lets you try it yourself." == farewell


def _table(lines: list[str]) -> int:
    return next(at for at, line in enumerate(lines) if line.split()[:1] == ["NODE"])

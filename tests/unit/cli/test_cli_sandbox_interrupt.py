"""``karpenter sandbox interrupt`` says in one sentence why it cannot do what is asked."""

from pathlib import Path

from unit.cli.commands import run


def test_without_a_kubeconfig_it_asks_for_one(tmp_path: Path) -> None:
    missing = tmp_path / "kubeconfig"

    ran = run("sandbox", "interrupt", "node-1", "--kubeconfig", str(missing))

    assert 2 == ran.code
    assert f"error: {missing} does not exist; name the kubeconfig of a running sandbox\n" == ran.err

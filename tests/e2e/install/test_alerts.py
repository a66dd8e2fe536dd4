"""Prometheus' own tool accepts the alerts and every panel, and finds that each alert does its work."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import dashboards
from control_plane import build
from helpers.pages import ROOT

pytestmark = pytest.mark.slow
MONITORING = ROOT / "monitoring"
_INTERVAL = "5m"  # for what Grafana puts in


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run promtool: the one that was built for tests, or else one that is installed."""
    program = build.find(build.PROMTOOL.name) or shutil.which(build.PROMTOOL.name)
    if program is None:
        pytest.skip("promtool is not built: run `make control-plane`, or install Prometheus")
    return subprocess.run(
        [program, *arguments],
        cwd=MONITORING,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.case("OPS-34")
def test_the_rules_are_in_order() -> None:
    ran = promtool("check", "rules", "--lint=all", "--lint-fatal", "rules.yaml")

    assert 0 == ran.returncode, ran.stdout + ran.stderr


@pytest.mark.case("OPS-34")
def test_every_alert_fires_and_stays_silent() -> None:
    ran = promtool("test", "rules", "rules_test.yaml")

    assert 0 == ran.returncode, ran.stdout + ran.stderr


@pytest.mark.case("OPS-34")
def test_an_alert_that_does_not_do_its_work_is_found(tmp_path: Path) -> None:
    rules = (MONITORING / "rules.yaml").read_text("utf-8")
    assert rules.count("> 3600") == 2
    (tmp_path / "rules.yaml").write_text(rules.replace("> 3600", "> 36000"), "utf-8")
    shutil.copy(MONITORING / "rules_test.yaml", tmp_path)

    ran = promtool("test", "rules", tmp_path / "rules_test.yaml")

    assert 1 == ran.returncode
    assert "KarpenterDrainStuck" in ran.stdout + ran.stderr


@pytest.mark.case("OPS-33")
def test_every_panel_has_expressions_that_prometheus_reads(tmp_path: Path) -> None:
    expressions = [
        re.sub(r"\$__rate_interval", _INTERVAL, target["expr"])
        for dashboard in dashboards.DASHBOARDS
        for panel in dashboards.document(dashboard)["panels"]
        for target in panel.get("targets", ())
    ]
    rules = [{"record": f"panel:{n}", "expr": text} for n, text in enumerate(expressions)]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}), "utf-8")

    ran = promtool("check", "rules", file)

    assert 0 == ran.returncode, ran.stdout + ran.stderr
    assert f"{len(rules)} rules found" in ran.stdout

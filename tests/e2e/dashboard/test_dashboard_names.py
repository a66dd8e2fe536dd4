"""Whatever route of a running dashboard is asked, no name that is hidden leaves the process."""

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.dashboard.test_dashboard_command import Running, dashboard
from helpers.cluster_texts import text_of
from unit.dashboard.test_redaction import MARK, cluster

pytestmark = pytest.mark.slow


def everything(page: Running) -> tuple[Any, str]:
    """The view, and all that the routes tell of it, as text."""
    view = page.asked("view")
    told = [view, *(page.asked(path) for path in ("plan", "costs", "about", "decisions"))]
    told += [page.asked(f"explain/node/{name}") for name in view["nodes"]["name"]]
    told += [page.asked(f"explain/nodepool/{pool['name']}") for pool in view["pools"]]
    names = view["dictionaries"]["namespace"]
    told += [
        page.asked(f"explain/pod/{names[namespace]}/{name}")
        for namespace, name in zip(view["pods"]["namespace"], view["pods"]["name"], strict=True)
        if name
    ]
    return view, json.dumps(told)


@pytest.mark.parametrize(
    ("of_machines", "options", "named"),
    [("m", ("--namespaces", "shop"), 2), (MARK, ("--redact",), 7)],
)
def test_no_hidden_name_is_told(
    tmp_path: Path, of_machines: str, options: tuple[str, ...], named: int
) -> None:
    file = tmp_path / f"{MARK}-cluster.json" if of_machines == MARK else tmp_path / "cluster.json"
    file.write_text(text_of(*cluster(MARK, of_machines)), "utf-8")
    with dashboard(str(file), *options) as page:
        view, told = everything(page)
        page.stop()

    assert len(view["pods"]["id"]) == 7
    assert len([name for name in view["pods"]["name"] if name]) == named
    assert MARK not in told

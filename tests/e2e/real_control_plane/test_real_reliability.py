"""Whatever ends under load on a real control plane, the cluster converges, and nothing is lost or doubled.

``python -m benchmarks reliability`` is the long form of it: 1,000 pods, and ten leaders killed.
"""

from pathlib import Path

import pytest

from helpers.reliability import reliability

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl", "control_plane_programs")]


def test_controllers_api_server_and_etcd_end_while_pods_arrive(tmp_path: Path) -> None:
    with reliability(tmp_path) as run:
        run.disturb("rolling restart", 90, run.rolling_restart)
        run.disturb("leader killed", 180, run.kill_the_leader)
        run.disturb("API server killed", 240, run.cluster.plane.restart_api_server)
        run.disturb("etcd killed", 300, run.cluster.plane.restart_etcd)
        run.end()

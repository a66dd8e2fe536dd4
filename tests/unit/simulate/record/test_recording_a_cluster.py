"""A recorder on a cluster that runs, in virtual time: what it writes, misses and survives."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from helpers.autoscaler import deployment, kwok_pool
from helpers.manifests import container
from helpers.recorded import begun, content, recorded, told
from helpers.rights import Recording as RightsRecording
from karpenter.admission.schemas.crds import builtin_crds
from karpenter.clock import run_virtual
from karpenter.simulate.demand.recording import Replayed
from karpenter.simulate.lengths import seconds
from karpenter.simulate.record.live import NotRecordableError
from karpenter.simulate.record.segments import PATTERN, moment
from karpenter.simulate.scenario.reader import Options, load
from unit.kube.flaky import Break, FlakyCluster, Refusal

Json = dict[str, Any]
APPS = ("apps/v1", "Deployment", "default")


def live(story: Callable[[FlakyCluster], Awaitable[None]], **options: Any) -> None:
    """Let a story happen on a cluster of its own."""

    async def told_now() -> None:
        cluster = FlakyCluster(**options)
        await cluster.begin()
        await story(cluster)

    run_virtual(told_now(), seed="1")


def bare_pod(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container("1", "1Gi")]},
    }


def test_what_happens_is_in_the_folder_with_its_time(tmp_path: Path) -> None:
    async def story(cluster: FlakyCluster) -> None:
        await cluster.direct.create(deployment("web", 2))
        async with recorded(cluster.transport, tmp_path):
            await cluster.clock.sleep(30)
            await cluster.direct.scale(*APPS, "web", 5)
            await cluster.direct.create(bare_pod("once"))
            await cluster.clock.sleep(30)
            await cluster.direct.delete("v1", "Pod", "default", "once", grace_period=0)
            await cluster.clock.sleep(30)

    live(story)

    found = told(tmp_path)
    web = [c for c in found.changes if c.key == ("Deployment", "default", "web")]
    pods = [c for c in found.changes if c.key[0] == "Pod"]
    assert [2, 5] == [c.after["spec"]["replicas"] for c in web if c.after is not None]
    assert pytest.approx(30, abs=1) == web[1].at - web[0].at
    assert pods[0].before is pods[-1].after is None
    assert pytest.approx(30, abs=1) == pods[-1].at - pods[0].at
    assert [] == found.gaps
    assert found.reading.has_end


def test_it_only_reads(tmp_path: Path) -> None:
    used: set[tuple[str, str, str]] = set()

    async def story(cluster: FlakyCluster) -> None:
        async with recorded(RightsRecording(cluster.transport, used), tmp_path):
            await cluster.clock.sleep(350)

    live(story)

    assert {"list", "watch"} == {verb for _, _, verb in used}


@pytest.mark.case("SIM-46")
def test_an_outage_of_two_minutes_with_an_expired_history_leaves_one_gap(tmp_path: Path) -> None:
    async def story(cluster: FlakyCluster) -> None:
        await cluster.direct.create(deployment("web", 2))
        async with recorded(cluster.transport, tmp_path) as running:
            await cluster.clock.sleep(60)
            cluster.transport.is_cut = True
            cluster.transport.break_watches(Break.LOST)
            await cluster.direct.scale(*APPS, "web", 7)
            await cluster.direct.create(bare_pod("unseen"))
            await cluster.direct.delete("v1", "Pod", "default", "unseen", grace_period=0)
            await cluster.clock.sleep(120)
            assert running.recorder.is_away
            cluster.transport.is_cut = False
            watches = len(running.recording._lists)
            expired = Refusal(410, watches, where=lambda r: ("watch", "true") in r.query)
            cluster.transport.refuse(expired)
            await cluster.clock.sleep(120)
            await cluster.direct.scale(*APPS, "web", 3)
            await cluster.clock.sleep(60)
            assert expired.times == 0

    live(story)

    found = told(tmp_path)
    (gap,) = found.gaps
    assert 120 <= gap.until - gap.since < 200
    web = [c.after["spec"]["replicas"] for c in found.changes if c.key[2] == "web" and c.after]
    assert [2, 7, 3] == web
    start = datetime.fromtimestamp(int(found.reading.first), UTC)
    (warning,) = Replayed(content(tmp_path), start).warnings()
    assert "gap from 00:01:00 to 00:0" in warning


@pytest.mark.case("SIM-46")
def test_a_history_that_expires_while_the_watch_is_open_leaves_a_gap_however_short(
    tmp_path: Path,
) -> None:
    async def story(cluster: FlakyCluster) -> None:
        async with recorded(cluster.transport, tmp_path):
            await cluster.clock.sleep(60)
            cluster.transport.break_watches(Break.GONE)
            await cluster.clock.sleep(60)

    live(story)

    (gap,) = told(tmp_path).gaps
    assert gap.until - gap.since < 10


def test_watches_that_end_politely_or_for_a_moment_leave_no_gap(tmp_path: Path) -> None:
    async def story(cluster: FlakyCluster) -> None:
        async with recorded(cluster.transport, tmp_path):
            await cluster.clock.sleep(60)
            cluster.transport.break_watches(Break.LOST)
            await cluster.clock.sleep(400)

    live(story)

    assert [] == told(tmp_path).gaps


def test_an_outage_that_has_not_ended_is_a_gap_to_the_end(tmp_path: Path) -> None:
    async def story(cluster: FlakyCluster) -> None:
        async with recorded(cluster.transport, tmp_path):
            await cluster.clock.sleep(60)
            cluster.transport.is_cut = True
            cluster.transport.break_watches(Break.LOST)
            await cluster.clock.sleep(100)

    live(story)

    (gap,) = told(tmp_path).gaps
    assert pytest.approx(100, abs=1) == gap.until - gap.since


@pytest.mark.case("SIM-47")
@pytest.mark.parametrize("moment_of_death", [0.05, 1.0, 3.9, 4.1, 7.7, 33.3])
def test_a_recorder_that_is_killed_loses_less_than_ten_seconds(
    tmp_path: Path, moment_of_death: float
) -> None:
    died: list[float] = []

    async def story(cluster: FlakyCluster) -> None:
        await cluster.direct.create(deployment("web", 0))
        running = await begun(cluster.transport, tmp_path)
        scaling = asyncio.create_task(scales(cluster))
        await cluster.clock.sleep(moment_of_death)
        died.append(cluster.clock.now().timestamp())
        await running.kill()
        await cluster.clock.sleep(60)
        async with recorded(cluster.transport, tmp_path):
            await cluster.clock.sleep(20)
        scaling.cancel()

    async def scales(cluster: FlakyCluster) -> None:
        for replicas in range(1, 1000):
            await cluster.clock.sleep(0.5)
            await cluster.direct.scale(*APPS, "web", replicas)

    live(story)

    found = told(tmp_path)
    (gap,) = found.gaps
    assert 2 == len(found.reading.heads)
    assert ["events-0001.jsonl.gz"] == found.reading.torn
    assert 0 <= died[0] - gap.since < 10
    assert pytest.approx(60, abs=12) == gap.until - gap.since
    web = [c.after["spec"]["replicas"] for c in found.changes if c.key[2] == "web" and c.after]
    assert sorted(web) == web
    missing = {*range(web[0], web[-1] + 1)} - {*web}
    assert len(missing) <= 2 * (gap.until - gap.since) + 1


def test_a_restart_goes_on_with_a_new_segment_and_notes_what_went_meanwhile(tmp_path: Path) -> None:
    async def story(cluster: FlakyCluster) -> None:
        await cluster.direct.create(deployment("gone", 1))
        async with recorded(cluster.transport, tmp_path):
            await cluster.clock.sleep(10)
        await cluster.direct.delete(*APPS, "gone")
        await cluster.direct.create(deployment("new", 1))
        async with recorded(cluster.transport, tmp_path):
            await cluster.clock.sleep(10)

    live(story)

    found = told(tmp_path)
    assert [1, 2] == [head.segment for head in found.reading.heads]
    assert {"new"} == {key[2] for key in found.objects if key[0] == "Deployment"}
    assert found.changes[-2].after is None or found.changes[-1].after is None


def test_segments_rotate_and_old_ones_go(tmp_path: Path) -> None:
    async def story(cluster: FlakyCluster) -> None:
        await cluster.direct.create(deployment("web", 1))
        options = {"rotate_seconds": 60.0, "keep_seconds": 180.0}
        async with recorded(cluster.transport, tmp_path, **options):
            for replicas in range(50):
                await cluster.clock.sleep(12)
                await cluster.direct.scale(*APPS, "web", replicas)

    live(story)

    names = [path.name for path in sorted(tmp_path.glob(PATTERN))]
    found = told(tmp_path)
    assert "events-0001.jsonl.gz" not in names
    assert 3 <= len(names) <= 5
    kept = found.reading.last - found.reading.first
    assert 180 <= kept <= 270
    assert found.gaps == []
    assert (
        f"start: {moment(found.reading.first)[:19]}Z\n" in (tmp_path / "scenario.yaml").read_text()
    )


def test_segments_rotate_by_size(tmp_path: Path) -> None:
    async def story(cluster: FlakyCluster) -> None:
        async with recorded(cluster.transport, tmp_path, rotate_bytes=3000):
            for number in range(150):
                await cluster.clock.sleep(1)
                await cluster.direct.create(bare_pod(f"pod-{number}"))
            await cluster.clock.sleep(10)

    live(story)

    sizes = [path.stat().st_size for path in sorted(tmp_path.glob(PATTERN))]
    assert len(sizes) > 1
    assert 150 == sum(c.before is None and c.key[0] == "Pod" for c in told(tmp_path).changes)


def test_only_the_namespaces_that_are_named_are_recorded(tmp_path: Path) -> None:
    async def story(cluster: FlakyCluster) -> None:
        for name in ("shop", "mail"):
            await cluster.direct.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
            pod = bare_pod("one")
            pod["metadata"]["namespace"] = name
            await cluster.direct.create(pod, namespace=name)
        await cluster.direct.create(bare_pod("one"))
        async with recorded(cluster.transport, tmp_path, namespaces=["shop", "mail"]):
            await cluster.clock.sleep(10)
            await cluster.direct.delete("v1", "Pod", "shop", "one", grace_period=0)
            cluster.transport.break_watches(Break.GONE)
            await cluster.clock.sleep(60)

    live(story)

    assert {"mail"} == {key[1] for key in told(tmp_path).objects if key[0] == "Pod"}


def test_a_cluster_whose_pods_may_not_be_read_is_not_recorded(tmp_path: Path) -> None:
    async def story(cluster: FlakyCluster) -> None:
        refused = Refusal(403, 1000, where=lambda request: request.path.endswith("/pods"))
        cluster.transport.refuse(refused)
        running = await begun(cluster.transport, tmp_path)
        with pytest.raises(NotRecordableError, match="bind the ClusterRole karpenter-record"):
            await running.task

    live(story)

    assert [] == [*tmp_path.iterdir()]


def test_kinds_that_a_cluster_does_not_show_are_named_and_the_others_recorded(
    tmp_path: Path,
) -> None:
    async def story(cluster: FlakyCluster) -> None:
        refused = Refusal(403, 1000, where=lambda r: "poddisruptionbudgets" in r.path)
        cluster.transport.refuse(refused)
        await cluster.direct.create(bare_pod("one"))
        async with recorded(cluster.transport, tmp_path):
            await cluster.clock.sleep(350)

    live(story)

    found = told(tmp_path)
    assert ("Pod", "default", "one") in found.objects
    assert [] == found.gaps


def test_a_refusal_and_an_interruption_become_steps_of_the_scenario(tmp_path: Path) -> None:
    held = {
        "karpenter.sh/nodepool": "default",
        "node.kubernetes.io/instance-type": "c-4x-amd64-linux",
        "topology.kubernetes.io/zone": "test-zone-a",
        "karpenter.sh/capacity-type": "spot",
    }
    asked = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in held.items()
        if "nodepool" not in key
    ]
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "default-a", "labels": held},
        "spec": {"nodeClassRef": reference, "requirements": asked},
    }

    def event(cluster: FlakyCluster, reason: str, kind: str = "NodeClaim") -> Json:
        name = f"{kind}.{reason}".lower()
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": kind, "name": "default-a", "apiVersion": "karpenter.sh/v1"},
            "reason": reason,
            "message": "it says more than it should",
            "type": "Warning",
            "firstTimestamp": moment(cluster.clock.now().timestamp())[:19] + "Z",
        }

    async def story(cluster: FlakyCluster) -> None:
        for crd in builtin_crds().values():
            await cluster.direct.create(crd)
        await cluster.direct.create(kwok_pool())
        await cluster.direct.create(claim)
        await cluster.direct.create(event(cluster, "InsufficientCapacityError"))
        await cluster.clock.sleep(30)
        async with recorded(cluster.transport, tmp_path, namespaces=["shop"]):
            await cluster.clock.sleep(40)
            await cluster.direct.create(event(cluster, "SpotInterrupted"))
            await cluster.direct.create(event(cluster, "SpotInterrupted", "Node"))
            await cluster.direct.create(event(cluster, "Launched"))
            await cluster.direct.delete("karpenter.sh/v1", "NodeClaim", None, "default-a")
            await cluster.clock.sleep(60)

    live(story)

    assert "more than it should" not in str(told(tmp_path).changes)
    file = tmp_path / "scenario.yaml"
    loaded = load(str(file), file.read_bytes(), tmp_path, Options())
    (step,) = loaded.scenario.timeline
    assert step.at is not None
    assert pytest.approx(40, abs=2) == seconds(step.at)
    assert step.interrupt is not None
    assert ("default", "test-zone-a", 1) == (
        step.interrupt.pool,
        step.interrupt.zone,
        step.interrupt.count,
    )

"""The control plane of a sandbox may have the client limits of a real one."""

from helpers.clusters import in_virtual_time, workload
from karpenter.clock import running_clock
from karpenter_sandbox.client_limits import ClientLimits, Limit
from karpenter_sandbox.cluster import Cluster


async def created_within(seconds: float, limits: ClientLimits | None) -> int:
    clock = running_clock()
    cluster = Cluster(clock, seed=1, is_strict=True, limits=limits)
    await cluster.start()
    try:
        await clock.sleep(60.0)  # what starting takes of the limit comes back
        await cluster.client.create(workload("Deployment", "web", replicas=100))
        await clock.sleep(seconds)
        return cluster.store.count("", "pods")
    finally:
        await cluster.stop()


@in_virtual_time
async def test_a_controller_creates_as_many_pods_as_its_limit_allows() -> None:
    limits = ClientLimits(controller_manager=Limit(10, 20))

    assert 100 == await created_within(1.0, None)
    assert 25 <= await created_within(1.0, limits) <= 31
    assert 100 == await created_within(9.0, limits)


@in_virtual_time
async def test_a_scheduler_binds_as_many_pods_as_its_limit_allows() -> None:
    clock = running_clock()
    cluster = Cluster(clock, seed=1, is_strict=True, limits=ClientLimits(scheduler=Limit(10, 20)))
    await cluster.start()
    try:
        await cluster.add_nodes(2)
        await clock.sleep(60.0)
        await cluster.client.create(workload("Deployment", "web", replicas=100))
        await clock.sleep(2.0)
        bound = [pod for pod in cluster.store.list("", "pods") if pod["spec"].get("nodeName")]
    finally:
        await cluster.stop()

    assert 100 == cluster.store.count("", "pods")
    assert 35 <= len(bound) <= 41

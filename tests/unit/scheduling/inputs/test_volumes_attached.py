"""Which claims a machine has attached, through which driver, and how many it could."""

from collections.abc import Mapping

import msgspec
import pytest

from helpers.builders import (
    csi_node,
    instance_type,
    managed_node,
    node_pool,
    pod,
    pv,
    pvc,
    storage_class,
    unmanaged_node,
)
from helpers.storage import DRIVER, bound_claim, stored, unbound_claims
from karpenter.api.storage import (
    AWSElasticBlockStoreVolumeSource,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    VolumeNodeResources,
)
from karpenter.scheduling.inputs.storage import SUCCESSORS, Storage
from karpenter.scheduling.inputs.volumes import attached_claims, node_volumes
from karpenter.scheduling.problem import PoolCatalogue
from karpenter.state.nodes import StateNode

OTHER = "other.example.com"


# Which driver attaches a claim


def ebs_volume_claimed() -> Storage:
    plain = pv("v")
    source = AWSElasticBlockStoreVolumeSource(volume_id="vol-1")
    spec = msgspec.structs.replace(plain.spec, aws_elastic_block_store=source)
    return stored([bound_claim("data", "v")], [msgspec.structs.replace(plain, spec=spec)])


def unbound_of(provisioner: str) -> Storage:
    return stored([pvc("data")], classes=[storage_class(provisioner=provisioner)])


@pytest.mark.parametrize(
    ("storage", "attached"),
    [
        pytest.param(
            unbound_of(DRIVER), {DRIVER: frozenset({"default/data"})}, id="that of its class"
        ),
        pytest.param(
            stored([bound_claim("data", "v")], [pv("v", driver=OTHER)], [storage_class()]),
            {OTHER: frozenset({"default/data"})},
            id="that of its volume once it is bound",
        ),
        pytest.param(
            ebs_volume_claimed(),
            {"ebs.csi.aws.com": frozenset({"default/data"})},
            id="the successor of the plugin that made its volume",
        ),
        pytest.param(
            stored([bound_claim("data", "v")], [pv("v")], [storage_class()]),
            {},
            id="none when its volume is not attached",
        ),
        pytest.param(stored([pvc("data")]), {}, id="none when its class does not exist"),
        pytest.param(stored(), {}, id="none when it does not exist"),
    ],
)
def test_the_driver_of_a_claim(storage: Storage, attached: Mapping[str, frozenset[str]]) -> None:
    assert attached == attached_claims([pod(claims=["data"])], storage)


@pytest.mark.parametrize(
    ("plugin", "driver"), [pytest.param(*pair, id=pair[0]) for pair in sorted(SUCCESSORS.items())]
)
def test_a_plugin_is_counted_as_its_successor(plugin: str, driver: str) -> None:
    assert [driver] == list(attached_claims([pod(claims=["data"])], unbound_of(plugin)))


# What machines can attach

BIG = instance_type("big", attach_limits={DRIVER: 10, OTHER: 3})
POOL = PoolCatalogue(node_pool(), (BIG,))


@pytest.mark.parametrize(
    ("node", "reported", "limits"),
    [
        pytest.param(
            managed_node("n1", instance_type="big"),
            {DRIVER: 5},
            {DRIVER: 5, OTHER: 3},
            id="its type speaks for drivers that have not reported",
        ),
        pytest.param(
            managed_node("n1", instance_type="big"),
            {DRIVER: None, OTHER: 0},
            {OTHER: 0},
            id="a driver without a limit attaches any number, one with zero none",
        ),
        pytest.param(
            managed_node("n1", instance_type="unknown"), {}, {}, id="an unknown type has no limit"
        ),
        pytest.param(
            managed_node("n1", instance_type="big", pool="another"),
            {},
            {},
            id="a type is looked up in the machine's own pool",
        ),
        pytest.param(
            unmanaged_node("n1", instance_type="big"),
            {DRIVER: 7},
            {DRIVER: 7},
            id="a machine of no pool has what its drivers report",
        ),
    ],
)
def test_limits(
    node: StateNode, reported: Mapping[str, int | None], limits: Mapping[str, int]
) -> None:
    storage = stored(csi_nodes=[csi_node("n1", reported)])

    found = node_volumes([node], [POOL], storage)

    assert limits == (found["n1"].limits if "n1" in found else {})


def test_a_driver_that_reports_without_a_count_has_no_limit() -> None:
    driver = CSINodeDriver(name=DRIVER, allocatable=VolumeNodeResources())
    reported = CSINode(metadata=csi_node("n1", {}).metadata, spec=CSINodeSpec(drivers=(driver,)))
    node = managed_node("n1", instance_type="big")

    found = node_volumes([node], [POOL], stored(csi_nodes=[reported]))

    assert {OTHER: 3} == found["n1"].limits


def test_a_node_that_is_not_registered_is_known_by_its_claim_but_reports_by_its_own_name() -> None:
    registering = managed_node("node-1", registered=False, initialized=False)
    assert registering.node_claim is not None
    claim = msgspec.structs.replace(
        registering.node_claim,
        metadata=msgspec.structs.replace(registering.node_claim.metadata, name="claim-1"),
    )
    machine = StateNode(node=registering.node, node_claim=claim)

    found = node_volumes([machine], [], stored(csi_nodes=[csi_node("node-1", {DRIVER: 4})]))

    assert {"claim-1": {DRIVER: 4}} == {name: held.limits for name, held in found.items()}


def test_what_running_pods_attach_is_counted_by_claim() -> None:
    storage = stored(unbound_claims(["a", "b"]), classes=[storage_class()])
    running = [
        pod("x", node_name="n1", claims=["a"]),
        pod("y", node_name="n1", claims=["a", "b"]),
    ]

    found = node_volumes([managed_node("n1", pods=running)], [], storage)

    assert {DRIVER: frozenset({"default/a", "default/b"})} == found["n1"].attached


def test_machines_without_volumes_or_limits_are_left_out() -> None:
    assert {} == node_volumes([managed_node("n1", pods=[pod("x", node_name="n1")])], [], Storage())

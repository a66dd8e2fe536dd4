"""A pod whose volumes are not ready to say where it may go is ignored for the pass."""

from dataclasses import replace

import msgspec
import pytest

from helpers.builders import FACTS_F, NOW, pod, pv, pvc, storage_class
from helpers.storage import BOUND, DRIVER, bound_claim, solved_with, stored
from karpenter.api.meta import ObjectMeta
from karpenter.api.pods import Pod, Volume
from karpenter.api.storage import (
    AWSElasticBlockStoreVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from karpenter.scheduling.inputs.ignored_pods import WhyIgnored
from karpenter.scheduling.inputs.storage import EBS_DRIVER, NO_STORAGE, Storage
from karpenter.scheduling.inputs.volume_checks import volume_objection

MOUNTING = pod("p", claims=["data"])


def why(storage: Storage, wanted: Pod = MOUNTING) -> WhyIgnored | None:
    objection = volume_objection(wanted, storage, FACTS_F)
    return objection[0] if objection is not None else None


def holding(
    claim: PersistentVolumeClaim,
    *,
    volume: PersistentVolume | None = None,
    storage_class: StorageClass | None = None,
) -> Storage:
    return stored([claim], [volume] if volume else [], [storage_class] if storage_class else [])


@pytest.mark.parametrize(
    ("storage", "expected"),
    [
        pytest.param(NO_STORAGE, WhyIgnored.CLAIM_NOT_FOUND, id="the claim does not exist"),
        pytest.param(
            holding(pvc("data", namespace="other"), storage_class=storage_class()),
            WhyIgnored.CLAIM_NOT_FOUND,
            id="the claim is in another namespace",
        ),
        pytest.param(
            holding(pvc("data", deleted=NOW), storage_class=storage_class()),
            WhyIgnored.CLAIM_DELETING,
            id="SCH-205 the claim is being deleted",
        ),
        pytest.param(
            holding(pvc("data", volume="v", phase="Lost", annotations=BOUND), volume=pv("v")),
            WhyIgnored.CLAIM_LOST,
            id="SCH-205 the claim is lost",
        ),
        pytest.param(
            holding(bound_claim("data", "v")),
            WhyIgnored.VOLUME_NOT_FOUND,
            id="the volume does not exist",
        ),
        pytest.param(
            holding(bound_claim("data", "v"), volume=pv("v", deleted=NOW)),
            WhyIgnored.VOLUME_DELETING,
            id="SCH-205 the volume is being deleted",
        ),
        pytest.param(
            holding(pvc("data", volume="v"), volume=pv("v"), storage_class=storage_class()),
            WhyIgnored.CLAIM_BINDING_INCOMPLETE,
            id="SCH-205 the binding is not complete",
        ),
        pytest.param(
            holding(pvc("data"), storage_class=storage_class(immediate=True)),
            WhyIgnored.IMMEDIATE_BINDING,
            id="SCH-205 unbound with a class that binds immediately",
        ),
        pytest.param(
            holding(pvc("data")),
            WhyIgnored.STORAGE_CLASS_NOT_FOUND,
            id="SCH-205 unbound with a class that does not exist",
        ),
        pytest.param(
            holding(pvc("data", storage_class=""), storage_class=storage_class()),
            WhyIgnored.NO_STORAGE_CLASS,
            id="unbound and of no class",
        ),
        pytest.param(
            holding(pvc("data", storage_class=None), storage_class=storage_class()),
            WhyIgnored.NO_STORAGE_CLASS,
            id="unbound without a class where none is the default",
        ),
    ],
)
def test_a_pod_waits_for_its_volume(storage: Storage, expected: WhyIgnored) -> None:
    assert expected == why(storage)


@pytest.mark.parametrize(
    "storage",
    [
        pytest.param(
            holding(pvc("data"), storage_class=storage_class()),
            id="unbound until the first consumer comes",
        ),
        pytest.param(
            holding(bound_claim("data", "v", storage_class="gone"), volume=pv("v")),
            id="SCH-206 bound, and its class is gone",
        ),
        pytest.param(
            holding(bound_claim("data", "v", storage_class=""), volume=pv("v")),
            id="SCH-206 bound, and of no class",
        ),
        pytest.param(
            holding(
                bound_claim("data", "v"),
                volume=pv("v"),
                storage_class=storage_class(immediate=True),
            ),
            id="bound immediately",
        ),
    ],
)
def test_a_pod_whose_volumes_are_ready_is_placed(storage: Storage) -> None:
    assert why(storage) is None
    assert ["p"] == solved_with(storage, [MOUNTING]).placed


def test_volumes_that_need_no_claim_are_not_looked_at() -> None:
    plain = pod("p")
    scratch = msgspec.structs.replace(
        plain, spec=msgspec.structs.replace(plain.spec, volumes=(Volume(name="scratch"),))
    )

    assert why(NO_STORAGE, scratch) is None


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param("p-ephemeral-0", None, id="named after pod and volume"),
        pytest.param("ephemeral-0", WhyIgnored.CLAIM_NOT_FOUND, id="named otherwise"),
    ],
)
def test_an_ephemeral_volume_has_a_claim_of_its_own(
    claim: str, expected: WhyIgnored | None
) -> None:
    storage = holding(pvc(claim), storage_class=storage_class())

    assert expected == why(storage, pod("p", ephemeral=["standard"]))


def test_every_claim_must_be_ready() -> None:
    storage = stored([pvc("data")], classes=[storage_class()])

    assert WhyIgnored.CLAIM_NOT_FOUND == why(storage, pod(claims=["data", "more"]))


def marked_default(name: str, created_hour: int, *, immediate: bool) -> StorageClass:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    return msgspec.structs.replace(
        storage_class(immediate=immediate),
        metadata=ObjectMeta(
            name=name,
            annotations=annotations,
            creation_timestamp=NOW.replace(hour=created_hour),
        ),
    )


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        pytest.param([marked_default("a", 1, immediate=False)], None, id="there is one default"),
        pytest.param(
            [marked_default("a", 1, immediate=True), marked_default("b", 2, immediate=False)],
            None,
            id="the newest of several defaults",
        ),
        pytest.param(
            [marked_default("b", 1, immediate=True), marked_default("a", 1, immediate=False)],
            None,
            id="the first by name of equally new defaults",
        ),
        pytest.param(
            [marked_default("a", 2, immediate=True), marked_default("b", 1, immediate=False)],
            WhyIgnored.IMMEDIATE_BINDING,
            id="the default binds immediately",
        ),
    ],
)
def test_a_claim_that_names_no_class_gets_the_default(
    classes: list[StorageClass], expected: WhyIgnored | None
) -> None:
    storage = stored([pvc("data", storage_class=None)], classes=classes)

    assert expected == why(storage)


UNSUPPORTING = replace(
    FACTS_F,
    unsupported_volume_drivers=frozenset({"bad.example.com", EBS_DRIVER}),
    unsupported_topology_keys=frozenset({"acme.com/rack"}),
)
EBS_VOLUME = msgspec.structs.replace(
    pv("v"),
    spec=msgspec.structs.replace(
        pv("v").spec, aws_elastic_block_store=AWSElasticBlockStoreVolumeSource(volume_id="vol-1")
    ),
)


@pytest.mark.case("SCH-210")
@pytest.mark.parametrize(
    ("storage", "expected"),
    [
        pytest.param(
            holding(pvc("data"), storage_class=storage_class(provisioner="bad.example.com")),
            WhyIgnored.UNSUPPORTED_VOLUME_DRIVER,
            id="an unsupported provisioner",
        ),
        pytest.param(
            holding(pvc("data"), storage_class=storage_class(provisioner="kubernetes.io/aws-ebs")),
            WhyIgnored.UNSUPPORTED_VOLUME_DRIVER,
            id="a plugin whose successor is unsupported",
        ),
        pytest.param(
            holding(bound_claim("data", "v"), volume=pv("v", driver="bad.example.com")),
            WhyIgnored.UNSUPPORTED_VOLUME_DRIVER,
            id="a volume of an unsupported driver",
        ),
        pytest.param(
            holding(bound_claim("data", "v"), volume=EBS_VOLUME),
            WhyIgnored.UNSUPPORTED_VOLUME_DRIVER,
            id="a volume of a plugin whose successor is unsupported",
        ),
        pytest.param(
            holding(
                pvc("data"), storage_class=storage_class(zones=["r1"], topology_key="acme.com/rack")
            ),
            WhyIgnored.UNSUPPORTED_VOLUME_TOPOLOGY,
            id="an unsupported topology key",
        ),
        pytest.param(
            holding(pvc("data"), storage_class=storage_class(provisioner=DRIVER, zones=["z1"])),
            None,
            id="nothing unsupported",
        ),
    ],
)
def test_what_the_provider_does_not_support(storage: Storage, expected: WhyIgnored | None) -> None:
    objection = volume_objection(MOUNTING, storage, UNSUPPORTING)

    assert expected == (objection[0] if objection is not None else None)


def test_the_detail_names_claim_class_and_remedy() -> None:
    storage = holding(pvc("data"), storage_class=storage_class(immediate=True))

    objection = volume_objection(MOUNTING, storage, FACTS_F)

    assert objection is not None
    expected = (
        "persistent volume claim default/data is unbound although storage class standard binds"
        " immediately; wait for its volume, or use WaitForFirstConsumer"
    )
    assert expected == objection[1]

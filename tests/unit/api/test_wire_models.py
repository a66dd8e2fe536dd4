"""Every kind decodes from the JSON an API server really sends, field by field."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from helpers.wire_samples import Sample, sample, sample_id, samples
from karpenter.api import codec
from karpenter.api.meta import Model, Resource


def decoded(found: Sample) -> Resource:
    return codec.decode(json.dumps(found).encode())


def models_within(value: object) -> Iterator[Model]:
    match value:
        case Model():
            yield value
            for name in value.__struct_fields__:
                yield from models_within(getattr(value, name))
        case tuple():
            for item in value:
                yield from models_within(item)
        case dict():
            for item in value.values():
                yield from models_within(item)


def models_below(model: type[Model]) -> Iterator[type[Model]]:
    yield model
    pending = [field.type for field in msgspec.structs.fields(model)]
    while pending:
        hint = pending.pop()
        if isinstance(hint, type) and issubclass(hint, Model):
            yield from models_below(hint)
        pending.extend(getattr(hint, "__args__", ()))


def wire_names() -> set[str]:
    return {
        field.encode_name
        for kind in codec.KINDS
        for model in models_below(kind)
        for field in msgspec.structs.fields(model)
    }


def set_fields(model: Model) -> Iterator[str]:
    for field in msgspec.structs.fields(model):
        unset = field.default if field.default is not msgspec.NODEFAULT else None
        if getattr(model, field.name) not in (unset, {}):
            yield f"{type(model).__name__}.{field.encode_name}"


def test_every_field_of_every_model_is_named_as_on_the_wire() -> None:
    declared = {
        f"{model.__name__}.{field.encode_name}"
        for kind in codec.KINDS
        for model in models_below(kind)
        for field in msgspec.structs.fields(model)
    }

    filled = {
        field
        for found in samples()
        for model in models_within(decoded(found))
        for field in set_fields(model)
    }

    assert set() == declared - filled


def test_acronyms_are_spelt_as_kubernetes_does() -> None:
    expected = {
        "associatePublicIPAddress",
        "bootID",
        "clusterDNS",
        "cpuCFSQuota",
        "hostIP",
        "httpProtocolIPv6",
        "imageGCHighThresholdPercent",
        "imageGCLowThresholdPercent",
        "imageID",
        "kmsKeyID",
        "machineID",
        "nodeID",
        "ownerID",
        "podIP",
        "providerID",
        "shareID",
        "snapshotID",
        "systemUUID",
        "volumeID",
        "zoneID",
    }

    assert expected == {name for name in wire_names() if re.search("[A-Z]{2}", name)}


def test_no_acronym_is_left_in_camel_case() -> None:
    camel_cased = re.compile("(Id|Ip|Ipv6|Dns|Gc|Cfs|Uuid|Cidr|Csi|Cpu|Api)([A-Z]|$)")

    assert not [name for name in wire_names() if camel_cased.search(name)]


def test_every_known_kind_has_a_sample() -> None:
    expected = {(kind.api_version, kind.__struct_config__.tag) for kind in codec.KINDS}

    assert expected == {(found["apiVersion"], found["kind"]) for found in samples()}


@pytest.mark.parametrize("found", samples(), ids=sample_id)
def test_bytes_and_plain_data_give_the_same_object(found: Sample) -> None:
    assert decoded(found) == codec.convert(found)


@pytest.mark.parametrize("found", samples(), ids=sample_id)
def test_what_is_encoded_decodes_to_the_same_object(found: Sample) -> None:
    resource = decoded(found)

    assert resource == codec.decode(codec.encode(resource))


@pytest.mark.parametrize("found", samples(), ids=sample_id)
def test_an_object_knows_its_version_and_kind(found: Sample) -> None:
    resource = decoded(found)

    assert (found["apiVersion"], found["kind"]) == (resource.api_version, resource.kind)


@pytest.mark.parametrize("model", codec.KINDS, ids=lambda model: model.__name__)
def test_a_bookmark_with_nothing_but_a_resource_version_decodes(model: type[Resource]) -> None:
    bookmark = b'{"metadata":{"resourceVersion":"12746"}}'

    assert codec.decode_as(bookmark, model).metadata.resource_version == "12746"


READINGS: list[tuple[str, Sample, Callable[[Any], object], object]] = [
    (
        "a sidecar is an init container that restarts always",
        sample("Pod"),
        lambda pod: [(c.name, c.restart_policy) for c in pod.spec.init_containers],
        [("migrate", ""), ("mesh", "Always")],
    ),
    (
        "pod-level resources stand beside those of the containers",
        sample("Pod"),
        lambda pod: (pod.spec.resources.requests, pod.spec.overhead),
        ({"cpu": "2", "memory": "1Gi"}, {"cpu": "250m", "memory": "120Mi"}),
    ),
    (
        "an integer quantity stays an integer",
        sample("Pod"),
        lambda pod: pod.spec.containers[0].resources.requests,
        {"cpu": "500m", "memory": "512Mi", "nvidia.com/gpu": 1},
    ),
    (
        "a resize under way shows in the container status",
        sample("Pod"),
        lambda pod: [
            (s.name, s.allocated_resources, s.resources.requests)
            for s in pod.status.container_statuses
        ],
        [("app", {"cpu": "6"}, {"cpu": "6"})],
    ),
    (
        "a time is aware and in UTC",
        sample("Pod"),
        lambda pod: pod.status.start_time,
        datetime(2026, 3, 1, 10, 0, 5, tzinfo=UTC),
    ),
    (
        "a micro time keeps its microseconds",
        sample("Lease"),
        lambda lease: lease.spec.renew_time,
        datetime(2026, 3, 1, 10, 10, 0, 123456, tzinfo=UTC),
    ),
    (
        "a required pod affinity keeps its namespaces and keys",
        sample("Pod"),
        lambda pod: [
            (t.namespaces, t.namespace_selector.match_labels, t.mismatch_label_keys)
            for t in pod.spec.affinity.pod_affinity.required
        ],
        [(("cache",), {"team": "data"}, ("tenant",))],
    ),
    (
        "an integer budget stays an integer",
        sample("PodDisruptionBudget", "web"),
        lambda pdb: (pdb.spec.min_available, pdb.spec.max_unavailable),
        (1, None),
    ),
    (
        "a percentage budget stays a string",
        sample("PodDisruptionBudget", "strict"),
        lambda pdb: (pdb.spec.min_available, pdb.spec.max_unavailable),
        (None, "0%"),
    ),
    (
        "a Deployment scaled to zero is not one left at its default",
        sample("Deployment"),
        lambda deployment: deployment.spec.replicas,
        0,
    ),
    (
        "a claim without a class is not one that takes the default class",
        sample("PersistentVolumeClaim"),
        lambda claim: claim.spec.storage_class_name,
        "",
    ),
    (
        "a device attribute keeps its type",
        sample("ResourceSlice"),
        lambda piece: {
            name: (a.string_value, a.version_value, a.int_value, a.bool_value)
            for name, a in piece.spec.devices[0].attributes.items()
        },
        {
            "model": ("a100", None, None, None),
            "driverVersion": (None, "1.2.3", None, None),
            "slot": (None, None, 4, None),
            "healthy": (None, None, None, True),
        },
    ),
    (
        "a duration keeps the text that was typed",
        sample("NodePool", version="karpenter.sh/v1"),
        lambda pool: (pool.spec.template.spec.expire_after, pool.spec.disruption.consolidate_after),
        ("336h", "1h30m"),
    ),
    (
        "a pool that says nothing of disruption has the defaults of the API",
        sample("NodePool", "fixed"),
        lambda pool: (
            pool.spec.template.spec.expire_after,
            pool.spec.disruption.consolidate_after,
            pool.spec.disruption.consolidation_policy,
            [(budget.nodes, budget.reasons) for budget in pool.spec.disruption.budgets],
        ),
        ("720h", "0s", "WhenEmptyOrUnderutilized", [("10%", None)]),
    ),
    (
        "the kubelet configuration of a node class keeps what nobody here knows",
        sample("EC2NodeClass", version="karpenter.k8s.aws/v1"),
        lambda node_class: node_class.spec.kubelet["topologyManagerPolicy"],
        "single-numa-node",
    ),
    (
        "the inline provider of a Provisioner is kept as it is",
        sample("Provisioner"),
        lambda provisioner: provisioner.spec.provider,
        {"subnetSelector": {"karpenter.sh/discovery": "demo"}},
    ),
    (
        "a volume size of an alpha template may be a number",
        sample("AWSNodeTemplate"),
        lambda template: template.spec.block_device_mappings[0].ebs.volume_size,
        20,
    ),
]


@pytest.mark.parametrize(
    ("found", "read", "expected"), [pytest.param(*case, id=name) for name, *case in READINGS]
)
def test_reading(found: Sample, read: Callable[[Any], object], expected: object) -> None:
    assert expected == read(decoded(found))

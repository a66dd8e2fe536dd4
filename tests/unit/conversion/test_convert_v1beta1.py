"""v1beta1 and v1 become each other without loss, row by row."""

import json
from typing import Any

import pytest

from karpenter.conversion.v1beta1 import down, up

KUBELET = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
REFERENCE = "compatibility.karpenter.sh/v1beta1-nodeclass-reference"
ALIAS_VERSION = "compatibility.karpenter.k8s.aws/v1-alias-version"
UBUNTU = "compatibility.karpenter.k8s.aws/v1beta1-ubuntu"
MIGRATED = "karpenter.sh/stored-version-migrated"
OLD_REFERENCE = {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "d"}
NEW_REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "d"}
IMDS = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 2,
    "httpTokens": "required",
}
ROOT = {
    "deviceName": "/dev/sda1",
    "rootVolume": True,
    "ebs": {"encrypted": True, "volumeSize": "20Gi", "volumeType": "gp3"},
}


def alike() -> dict[str, Any]:
    """What both versions of a pool write alike."""
    return {
        "template": {
            "metadata": {"labels": {"team": "a"}, "annotations": {"x": "y"}},
            "spec": {
                "requirements": [{"key": "z", "operator": "In", "values": ["a"], "minValues": 1}],
                "taints": [{"key": "t", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "s", "effect": "NoExecute"}],
            },
        },
        "limits": {"cpu": "1000"},
        "weight": 10,
    }


def pool(version: str, spec: dict[str, Any], **annotations: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "p"}
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": f"karpenter.sh/{version}",
        "kind": "NodePool",
        "metadata": metadata,
        "spec": spec,
    }


def template(**spec: Any) -> dict[str, Any]:
    return {"template": {"spec": {"requirements": [], **spec}}}


def claim(version: str, spec: dict[str, Any], **annotations: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "c", "labels": {"karpenter.sh/nodepool": "p"}}
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": f"karpenter.sh/{version}",
        "kind": "NodeClaim",
        "metadata": metadata,
        "spec": spec,
    }


def node_class(version: str, spec: dict[str, Any], **annotations: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "k"}
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": f"karpenter.k8s.aws/{version}",
        "kind": "EC2NodeClass",
        "metadata": metadata,
        "spec": spec,
    }


ROUND_TRIPS = [
    pytest.param(
        pool("v1beta1", {**template(), "disruption": {"expireAfter": "336h"}}),
        pool("v1", {**template(expireAfter="336h"), "disruption": {"consolidateAfter": "0s"}}),
        id="expiry moves into the template",
    ),
    pytest.param(
        pool("v1beta1", {**template(), "disruption": {"consolidationPolicy": "WhenUnderutilized"}}),
        pool(
            "v1",
            {
                **template(),
                "disruption": {
                    "consolidationPolicy": "WhenEmptyOrUnderutilized",
                    "consolidateAfter": "0s",
                },
            },
        ),
        id="WhenUnderutilized is renamed and waits 0s",
    ),
    pytest.param(
        pool(
            "v1beta1",
            {
                **template(),
                "disruption": {
                    "consolidationPolicy": "WhenUnderutilized",
                    "consolidateAfter": "Never",
                },
            },
        ),
        pool(
            "v1",
            {
                **template(),
                "disruption": {
                    "consolidationPolicy": "WhenEmptyOrUnderutilized",
                    "consolidateAfter": "Never",
                },
            },
        ),
        id="WhenUnderutilized that never consolidates stays so",
    ),
    pytest.param(
        pool(
            "v1beta1",
            {
                **template(),
                "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"},
            },
        ),
        pool(
            "v1",
            {
                **template(),
                "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"},
            },
        ),
        id="WhenEmpty and its wait are copied",
    ),
    pytest.param(
        pool("v1beta1", template()),
        pool("v1", template()),
        id="a pool that says nothing about disruption says nothing afterwards",
    ),
    pytest.param(
        pool("v1beta1", template(kubelet={"maxPods": 20, "clusterDNS": ["10.0.0.10"]})),
        pool("v1", template(), **{KUBELET: '{"clusterDNS":["10.0.0.10"],"maxPods":20}'}),
        id="kubelet settings of a pool are kept in an annotation",
    ),
    pytest.param(
        pool("v1beta1", template(nodeClassRef=OLD_REFERENCE)),
        pool(
            "v1",
            template(nodeClassRef=NEW_REFERENCE),
            **{
                REFERENCE: (
                    '{"apiVersion":"karpenter.k8s.aws/v1beta1","kind":"EC2NodeClass","name":"d"}'
                )
            },
        ),
        id="the apiVersion of the node class reference becomes its group",
        marks=pytest.mark.row("S2-57"),
    ),
    pytest.param(
        pool("v1beta1", template(nodeClassRef={"name": "d"})),
        pool("v1", template(nodeClassRef=NEW_REFERENCE), **{REFERENCE: '{"name":"d"}'}),
        id="a reference with only a name means the provider's class",
        marks=pytest.mark.row("S2-57"),
    ),
    pytest.param(
        pool(
            "v1beta1",
            template(
                nodeClassRef={
                    "apiVersion": "karpenter.kwok.sh/v1alpha1",
                    "kind": "KWOKNodeClass",
                    "name": "d",
                }
            ),
        ),
        pool(
            "v1",
            template(
                nodeClassRef={"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "d"}
            ),
            **{
                REFERENCE: (
                    '{"apiVersion":"karpenter.kwok.sh/v1alpha1","kind":"KWOKNodeClass","name":"d"}'
                )
            },
        ),
        id="a reference to another provider's class keeps its group and kind",
    ),
    pytest.param(
        pool(
            "v1beta1",
            {
                **alike(),
                "disruption": {"budgets": [{"nodes": "10%"}]},
            },
        ),
        pool(
            "v1",
            {
                **alike(),
                "disruption": {"budgets": [{"nodes": "10%"}], "consolidateAfter": "0s"},
            },
        ),
        id="budgets, limits, weight, requirements, taints and labels are copied",
    ),
    pytest.param(
        {
            **pool("v1beta1", template()),
            "status": {"resources": {"cpu": "4"}, "conditions": [{"type": "Ready"}]},
        },
        {
            **pool("v1", template()),
            "status": {"resources": {"cpu": "4"}, "conditions": [{"type": "Ready"}]},
        },
        id="resources and conditions in the status are copied",
    ),
    pytest.param(
        claim("v1beta1", {"requirements": [], "kubelet": {"maxPods": 20}}),
        claim("v1", {"requirements": [], "expireAfter": "336h"}, **{KUBELET: '{"maxPods":20}'}),
        id="a claim expires as its pool says and keeps its kubelet settings",
    ),
    pytest.param(
        claim("v1beta1", {"requirements": [], "resources": {"requests": {"cpu": "1"}}}),
        claim(
            "v1",
            {"requirements": [], "resources": {"requests": {"cpu": "1"}}, "expireAfter": "336h"},
        ),
        id="a claim keeps its resource requests",
    ),
    pytest.param(
        node_class("v1beta1", {"amiFamily": "Bottlerocket", "metadataOptions": IMDS}),
        node_class(
            "v1",
            {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}], "metadataOptions": IMDS},
        ),
        id="a family without terms becomes an alias of the latest image",
    ),
    pytest.param(
        node_class(
            "v1beta1",
            {"amiFamily": "AL2023", "metadataOptions": IMDS},
            **{ALIAS_VERSION: "v20240807"},
        ),
        node_class(
            "v1", {"amiSelectorTerms": [{"alias": "al2023@v20240807"}], "metadataOptions": IMDS}
        ),
        id="the pinned version of an alias is kept in an annotation",
    ),
    pytest.param(
        node_class(
            "v1beta1",
            {
                "amiFamily": "AL2",
                "amiSelectorTerms": [{"tags": {"a": "b"}}],
                "metadataOptions": IMDS,
            },
        ),
        node_class(
            "v1",
            {
                "amiFamily": "AL2",
                "amiSelectorTerms": [{"tags": {"a": "b"}}],
                "metadataOptions": IMDS,
            },
        ),
        id="a family with terms keeps both",
    ),
    pytest.param(
        node_class(
            "v1beta1",
            {
                "amiFamily": "Custom",
                "amiSelectorTerms": [{"id": "ami-1"}],
                "metadataOptions": IMDS,
            },
        ),
        node_class(
            "v1",
            {
                "amiFamily": "Custom",
                "amiSelectorTerms": [{"id": "ami-1"}],
                "metadataOptions": IMDS,
            },
        ),
        id="Custom keeps both",
    ),
    pytest.param(
        node_class("v1beta1", {"amiFamily": "Ubuntu", "metadataOptions": IMDS}),
        node_class(
            "v1",
            {
                "amiFamily": "AL2",
                "amiSelectorTerms": [{"id": "ami-placeholder"}],
                "blockDeviceMappings": [ROOT],
                "metadataOptions": IMDS,
            },
            **{UBUNTU: "amiFamily,blockDeviceMappings,incompatible"},
        ),
        id="Ubuntu without terms gets a root disk and a placeholder image",
    ),
    pytest.param(
        node_class(
            "v1beta1",
            {
                "amiFamily": "Ubuntu",
                "amiSelectorTerms": [{"id": "ami-1"}],
                "blockDeviceMappings": [{"deviceName": "/dev/sda1"}],
                "metadataOptions": IMDS,
            },
        ),
        node_class(
            "v1",
            {
                "amiFamily": "AL2",
                "amiSelectorTerms": [{"id": "ami-1"}],
                "blockDeviceMappings": [{"deviceName": "/dev/sda1"}],
                "metadataOptions": IMDS,
            },
            **{UBUNTU: "amiFamily"},
        ),
        id="Ubuntu with terms and disks keeps its own",
    ),
    pytest.param(
        node_class(
            "v1beta1",
            {
                "amiFamily": "AL2",
                "amiSelectorTerms": [{"id": "ami-1"}],
                "role": "r",
                "metadataOptions": {**IMDS, "httpPutResponseHopLimit": 1},
            },
        ),
        node_class(
            "v1",
            {
                "amiFamily": "AL2",
                "amiSelectorTerms": [{"id": "ami-1"}],
                "role": "r",
                "metadataOptions": {**IMDS, "httpPutResponseHopLimit": 1},
            },
        ),
        id="metadata options that were given stay",
    ),
]


@pytest.mark.parametrize(("v1beta1", "v1"), ROUND_TRIPS)
def test_upgrade(v1beta1: dict[str, Any], v1: dict[str, Any]) -> None:
    actual = up(v1beta1, {"p": "336h"}.get)

    assert v1 == actual


@pytest.mark.parametrize(("v1beta1", "v1"), ROUND_TRIPS)
def test_downgrade(v1beta1: dict[str, Any], v1: dict[str, Any]) -> None:
    actual = down(v1)

    assert v1beta1 == actual


@pytest.mark.parametrize(("v1beta1", "v1"), ROUND_TRIPS)
def test_inputs_are_never_modified(v1beta1: dict[str, Any], v1: dict[str, Any]) -> None:
    before = json.dumps([v1beta1, v1])

    up(v1beta1)
    down(v1)

    assert before == json.dumps([v1beta1, v1])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(None, IMDS, id="absent options keep the old hop limit of 2"),
        pytest.param(
            {"httpTokens": "optional"},
            {**IMDS, "httpTokens": "optional"},
            id="an absent hop limit stays 2",
        ),
    ],
)
def test_the_hop_limit_of_2_is_written_out(
    options: dict[str, Any] | None, expected: dict[str, Any]
) -> None:
    spec: dict[str, Any] = {"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-1"}]}
    if options is not None:
        spec["metadataOptions"] = options

    actual = up(node_class("v1beta1", spec))

    assert expected == actual["spec"]["metadataOptions"]


@pytest.mark.parametrize(
    ("pools", "expected"),
    [
        pytest.param({"p": "336h"}, "336h", id="as its pool says"),
        pytest.param({"p": "Never"}, "Never", id="never, when its pool says so"),
        pytest.param({}, "720h", id="after 720h when its pool is gone"),
    ],
)
def test_a_claim_without_expiry_expires(pools: dict[str, str], expected: str) -> None:
    actual = up(claim("v1beta1", {"requirements": []}), pools.get)

    assert expected == actual["spec"]["expireAfter"]


def test_a_claim_without_a_pool_expires_after_720h() -> None:
    by_hand = {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodeClaim",
        "metadata": {"name": "c"},
        "spec": {"requirements": []},
    }

    actual = up(by_hand, {"p": "336h"}.get)

    assert actual["spec"]["expireAfter"] == "720h"


def test_stale_kubelet_settings_go_when_the_pool_has_none() -> None:
    actual = up(pool("v1beta1", template(), **{KUBELET: '{"maxPods":1}', "own": "x"}))

    assert actual["metadata"]["annotations"] == {"own": "x"}


def test_resources_of_the_template_have_no_place_in_v1() -> None:
    actual = up(pool("v1beta1", template(resources={})))

    assert pool("v1", template()) == actual


@pytest.mark.parametrize(
    ("v1", "v1beta1"),
    [
        pytest.param(
            pool("v1", template(), **{MIGRATED: "true"}),
            pool("v1beta1", template()),
            id="the storage migration mark is dropped from a pool",
        ),
        pytest.param(
            node_class("v1", {"role": "r"}, **{MIGRATED: "true"}),
            node_class("v1beta1", {"role": "r"}),
            id="the storage migration mark is dropped from a node class",
        ),
        pytest.param(
            claim("v1", {"expireAfter": "1h"}, **{MIGRATED: "true"}),
            claim("v1beta1", {}),
            id="the storage migration mark is dropped from a claim",
        ),
        pytest.param(
            pool("v1", template(nodeClassRef=NEW_REFERENCE)),
            pool("v1beta1", template(nodeClassRef={"kind": "EC2NodeClass", "name": "d"})),
            id="without the annotation only name and kind of the reference return",
        ),
        pytest.param(
            pool(
                "v1",
                template(nodeClassRef=NEW_REFERENCE),
                **{REFERENCE: '{"apiVersion":"karpenter.k8s.aws/v1beta1","name":"before"}'},
            ),
            pool("v1beta1", template(nodeClassRef={"kind": "EC2NodeClass", "name": "d"})),
            id="a reference that was edited since does not come back",
        ),
        pytest.param(
            pool("v1", template(), **{KUBELET: "not json"}),
            pool("v1beta1", template()),
            id="a broken annotation counts as absent",
        ),
        pytest.param(
            pool(
                "v1",
                {
                    **template(terminationGracePeriod="1h"),
                    "replicas": 3,
                    "disruption": {
                        "consolidationPolicy": "WhenEmptyOrUnderutilized",
                        "consolidateAfter": "30s",
                        "budgets": [{"nodes": "0", "reasons": ["Drifted"]}],
                    },
                },
            ),
            pool(
                "v1beta1",
                {
                    **template(),
                    "disruption": {
                        "consolidationPolicy": "WhenUnderutilized",
                        "budgets": [{"nodes": "0"}],
                    },
                },
            ),
            id="reasons, grace period, replicas and the wait are lost",
        ),
        pytest.param(
            pool("v1", {**template(), "disruption": {"consolidationPolicy": "Balanced"}}),
            pool("v1beta1", {**template(), "disruption": {"consolidationPolicy": "Balanced"}}),
            id="Balanced comes down as a value that v1beta1 refuses",
        ),
        pytest.param(
            {
                **pool("v1", template()),
                "status": {"nodes": 1, "nodeClassObservedGeneration": 2, "resources": {}},
            },
            {**pool("v1beta1", template()), "status": {"resources": {}}},
            id="the node count in the status is lost",
        ),
        pytest.param(
            {**claim("v1", {}), "status": {"lastPodEventTime": "t", "nodeName": "n"}},
            {**claim("v1beta1", {}), "status": {"nodeName": "n"}},
            id="the last pod event is lost",
        ),
        pytest.param(
            node_class(
                "v1",
                {
                    "amiFamily": "AL2023",
                    "amiSelectorTerms": [{"ssmParameter": "/x"}, {"id": "ami-1"}],
                    "blockDeviceMappings": [
                        {
                            "deviceName": "/dev/xvda",
                            "ebs": {"snapshotID": "s", "volumeInitializationRate": 100},
                        }
                    ],
                    "capacityReservationSelectorTerms": [{"id": "cr-1"}],
                    "connectionTracking": {"udpTimeout": 30},
                    "cpuOptions": {"nestedVirtualization": "enabled"},
                    "ipPrefixCount": 1,
                    "kubelet": {"maxPods": 1},
                    "networkInterfaces": [],
                    "placementGroupSelector": {"name": "p"},
                    "role": "r",
                },
            ),
            node_class(
                "v1beta1",
                {
                    "amiFamily": "AL2023",
                    "amiSelectorTerms": [{"id": "ami-1"}],
                    "blockDeviceMappings": [
                        {"deviceName": "/dev/xvda", "ebs": {"snapshotID": "s"}}
                    ],
                    "role": "r",
                },
            ),
            id="what is new in v1 is lost from a node class",
        ),
        pytest.param(
            node_class(
                "v1",
                {"amiFamily": "AL2", "amiSelectorTerms": [{"id": "ami-real"}]},
                **{UBUNTU: "amiFamily,incompatible"},
            ),
            node_class(
                "v1beta1", {"amiFamily": "Ubuntu", "amiSelectorTerms": [{"id": "ami-real"}]}
            ),
            id="an image the user has given since then stays",
        ),
    ],
)
def test_what_v1beta1_cannot_express(v1: dict[str, Any], v1beta1: dict[str, Any]) -> None:
    actual = down(v1)

    assert v1beta1 == actual


def test_a_kind_without_v1beta1_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="kind NodeOverlay has no v1beta1 version"):
        up({"kind": "NodeOverlay"})

"""Specs that an EC2NodeClass may have, by version: changes to a small valid one."""

import pytest

from unit.api.crds.cases.ec2nodeclass_specs import (
    ABSENT,
    EVERY_EBS_FIELD,
    SUBNET_ID,
    TAGS,
    VOLUME_TYPES,
    alias,
    ami,
    ebs,
    interfaces,
    old_ami,
    tagged,
)

FAMILIES_OF_V1BETA1 = ("AL2", "AL2023", "Bottlerocket", "Ubuntu", "Windows2019", "Windows2022")

ACCEPTED_IN_BOTH = [
    pytest.param({}, id="smallest-class"),
    pytest.param(
        {"role": ABSENT, "instanceProfile": "profile"}, id="instance-profile-instead-of-role"
    ),
    pytest.param(
        {"securityGroupSelectorTerms": [{"id": "sg-abc123"}, {"name": "default"}, TAGS]},
        marks=pytest.mark.row("S2-68"),
        id="three-security-group-terms-or-ed",
    ),
    pytest.param(
        {"securityGroupSelectorTerms": [{"id": "sg-1", "name": "a"}, TAGS]},
        id="security-group-id-with-name-beside-a-clean-term",
    ),
    pytest.param({"userData": "echo hello", "context": "reserved"}, id="user-data-and-context"),
    pytest.param({"tags": {"Name": "foo", "team": ""}}, id="aws-10-name-tag-and-empty-value"),
    *(
        pytest.param(ebs(volumeSize="1Gi", volumeType=volume_type), id=f"volume-type-{volume_type}")
        for volume_type in VOLUME_TYPES
    ),
    pytest.param({"blockDeviceMappings": [{"deviceName": "/dev/xvdb"}] * 50}, id="fifty-disks"),
    pytest.param({"instanceStorePolicy": "RAID0"}, id="raid0"),
    pytest.param(
        {"detailedMonitoring": True, "associatePublicIPAddress": False}, id="monitoring-and-address"
    ),
    pytest.param(
        {
            "metadataOptions": {
                "httpEndpoint": "disabled",
                "httpProtocolIPv6": "enabled",
                "httpPutResponseHopLimit": 64,
                "httpTokens": "optional",
            }
        },
        id="every-metadata-option-changed",
    ),
]

ACCEPTED_V1 = [
    *ACCEPTED_IN_BOTH,
    # tags of selectors
    pytest.param({"subnetSelectorTerms": tagged(20)}, id="twenty-subnet-tags"),
    pytest.param({"securityGroupSelectorTerms": tagged(20)}, id="twenty-security-group-tags"),
    pytest.param({"capacityReservationSelectorTerms": tagged(20)}, id="twenty-reservation-tags"),
    pytest.param(ami(*tagged(20)), id="twenty-image-tags"),
    # subnets
    pytest.param({"subnetSelectorTerms": [SUBNET_ID]}, id="subnet-by-id"),
    pytest.param(
        {"subnetSelectorTerms": [{"id": "my-subnet-0a!"}]}, id="subnet-id-pattern-is-not-anchored"
    ),
    pytest.param({"subnetSelectorTerms": [TAGS] * 30}, id="thirty-subnet-terms"),
    pytest.param(
        {"subnetSelectorTerms": [{**SUBNET_ID, **TAGS}, TAGS]},
        id="aws-8-subnet-id-with-tags-beside-a-clean-term",
    ),
    pytest.param({"subnetSelectorTerms": [{"tags": {"team": "*"}}]}, id="any-value-of-a-tag"),
    # security groups
    pytest.param(
        {"securityGroupSelectorTerms": [{"name": "a", **TAGS}, {"name": "b"}]},
        id="security-group-name-with-tags-beside-a-clean-term",
    ),
    pytest.param(
        {"securityGroupSelectorTerms": [{"id": "sg-1"}] * 30}, id="thirty-security-group-terms"
    ),
    # images
    pytest.param(alias("al2@v20240807"), id="alias-al2-pinned"),
    pytest.param(alias("al2023@latest"), id="alias-al2023"),
    pytest.param(alias("bottlerocket@1.20.4"), id="aws-5-bottlerocket-version-without-v"),
    pytest.param(alias("bottlerocket@v1.20.4"), id="aws-5-bottlerocket-version-with-v"),
    pytest.param(alias("windows2019@latest"), id="alias-windows2019"),
    pytest.param(alias("windows2022@latest"), id="alias-windows2022"),
    pytest.param(alias("windows2025@latest"), id="alias-windows2025"),
    pytest.param(alias("al2023@" + "v" * 23), id="alias-of-thirty-characters"),
    pytest.param(ami({"id": "ami-0a1b"}), id="image-by-id"),
    pytest.param(ami({"id": "my-ami-0a!"}), id="image-id-pattern-is-not-anchored"),
    pytest.param(ami({"name": "my-image-*"}), id="image-by-name"),
    pytest.param(ami({"owner": "self", "tags": {"a": "b"}}), id="aws-7-owner-with-tags"),
    pytest.param(ami({"ssmParameter": "/my/image"}), id="image-by-ssm-parameter"),
    pytest.param(
        ami({"ssmParameter": "/my/image", "id": "ami-1"}), id="ssm-parameter-excludes-nothing"
    ),
    pytest.param(ami(*[{"id": "ami-1"}] * 30), id="thirty-ami-terms"),
    # families
    pytest.param(alias("al2@latest", "AL2"), id="family-equal-to-alias-al2"),
    pytest.param(alias("al2023@latest", "AL2023"), id="family-equal-to-alias-al2023"),
    pytest.param(alias("bottlerocket@latest", "Bottlerocket"), id="family-equal-to-bottlerocket"),
    pytest.param(alias("windows2019@latest", "Windows2019"), id="family-equal-to-windows2019"),
    pytest.param(alias("windows2022@latest", "Windows2022"), id="family-equal-to-windows2022"),
    pytest.param(alias("windows2025@latest", "Windows2025"), id="family-equal-to-windows2025"),
    pytest.param(alias("al2023@latest", "Custom"), id="aws-4-custom-with-an-alias"),
    # free text and tags
    pytest.param(
        {
            "tags": {
                "karpenter.sh/discovery": "x",
                "eks:cluster": "y",
                "my-kubernetes.io/cluster": "",
            }
        },
        id="tags-that-only-resemble-reserved-ones",
    ),
    # kubelet
    pytest.param({"kubelet": {"maxPods": 20, "anything": [1]}}, id="kubelet-is-open"),
    # disks
    pytest.param(
        ebs(
            deleteOnTermination=True,
            encrypted=True,
            iops=3000,
            kmsKeyID="key",
            snapshotID="snap-1",
            throughput=125,
            volumeInitializationRate=100,
            volumeSize="100Gi",
            volumeType="gp3",
        ),
        id="every-field-of-a-volume",
    ),
    pytest.param(ebs(snapshotID="snap-1"), id="snapshot-without-size"),
    pytest.param(ebs(snapshotID="snap-1", volumeInitializationRate=300), id="fastest-fill"),
    pytest.param(
        {"blockDeviceMappings": [{"rootVolume": True}, {"rootVolume": False}, {}]},
        id="one-root-volume",
    ),
    *(
        pytest.param(ebs(volumeSize=text), id=f"volume-size-{text}")
        for text in (
            *("1Gi", "9999Gi", "10000Gi", "58999Gi", "59000Gi"),
            *("1G", "9999G", "59999G", "63999G", "64000G"),
            *("1Ti", "9Ti", "10Ti", "17Ti", "20Ti", "27Ti", "50Ti", "57Ti", "58Ti"),
            *("1T", "9T", "18T", "59T", "60T", "64T"),
        )
    ),
    # switches
    pytest.param({"ipPrefixCount": 0}, id="no-prefixes"),
    pytest.param({"ipPrefixCount": 2**31 - 1}, id="most-prefixes"),
    pytest.param({"cpuOptions": {"nestedVirtualization": "enabled"}}, id="nested-on"),
    pytest.param({"cpuOptions": {"nestedVirtualization": "disabled"}}, id="nested-off"),
    # capacity reservations
    pytest.param({"capacityReservationSelectorTerms": []}, id="no-capacity-reservation-terms"),
    pytest.param(
        {
            "capacityReservationSelectorTerms": [
                {"id": "cr-0a1b"},
                {"tags": {"a": "b"}, "ownerID": "012345678901"},
                {"instanceMatchCriteria": "targeted"},
            ]
        },
        id="capacity-reservations-by-id-tags-and-criteria",
    ),
    pytest.param(
        {"capacityReservationSelectorTerms": [{"instanceMatchCriteria": "open"}] * 30},
        id="aws-9-thirty-open-capacity-reservations",
    ),
    pytest.param(
        {
            "capacityReservationSelectorTerms": [
                {"id": "cr-1", "ownerID": "012345678901"},
                {"id": "cr-2"},
            ]
        },
        id="capacity-reservation-id-with-owner-beside-a-clean-term",
    ),
    # placement group
    pytest.param({"placementGroupSelector": {"name": "group"}}, id="placement-group-by-name"),
    pytest.param({"placementGroupSelector": {"id": "pg-0a1b"}}, id="placement-group-by-id"),
    # network
    pytest.param({"networkInterfaces": []}, id="no-network-interfaces"),
    pytest.param(
        interfaces((0, 0, "interface"), (0, 1, "efa-only"), (1, 0, "efa-only")),
        id="one-efa-only-interface-on-each-card",
    ),
    pytest.param(
        interfaces(*((card, 0, "interface") for card in range(150))), id="150-network-interfaces"
    ),
    pytest.param({"connectionTracking": {"tcpEstablishedTimeout": 60}}, id="shortest-tcp-timeout"),
    pytest.param(
        {"connectionTracking": {"tcpEstablishedTimeout": 432000}}, id="longest-tcp-timeout"
    ),
    pytest.param({"connectionTracking": {"udpStreamTimeout": 60}}, id="shortest-udp-stream"),
    pytest.param({"connectionTracking": {"udpStreamTimeout": 180}}, id="longest-udp-stream"),
    pytest.param({"connectionTracking": {"udpTimeout": 30}}, id="shortest-udp-timeout"),
    pytest.param({"connectionTracking": {"udpTimeout": 60}}, id="longest-udp-timeout"),
]

ACCEPTED_V1BETA1 = [
    *ACCEPTED_IN_BOTH,
    *(pytest.param({"amiFamily": family}, id=f"family-{family}") for family in FAMILIES_OF_V1BETA1),
    pytest.param({"amiFamily": "Custom", **old_ami({"id": "ami-1"})}, id="custom-with-ami-terms"),
    # selectors
    pytest.param({"subnetSelectorTerms": [{"id": "subnet-1"}] * 30}, id="thirty-subnets-by-id"),
    pytest.param(
        {"subnetSelectorTerms": [{"id": "subnet-1", **TAGS}, TAGS]},
        id="subnet-id-with-tags-beside-a-clean-term",
    ),
    *(
        pytest.param({field: tagged(20)}, id=f"twenty-tags-in-{field}")
        for field in ("subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms")
    ),
    pytest.param({"securityGroupSelectorTerms": [TAGS] * 30}, id="thirty-security-group-terms"),
    pytest.param(old_ami(), id="no-ami-terms"),
    pytest.param(
        old_ami({"id": "ami-1"}, {"name": "image", "owner": "self"}, {"owner": "amazon", **TAGS}),
        id="images-by-id-name-and-tags",
    ),
    pytest.param(old_ami(*[{"id": "ami-1"}] * 30), id="thirty-ami-terms"),
    # the rest
    pytest.param(
        {"tags": {"karpenter.sh/provisioner-name": "x"}}, id="tag-karpenter.sh/provisioner-name"
    ),
    pytest.param(
        {
            "blockDeviceMappings": [
                {
                    "deviceName": "/dev/xvda",
                    "rootVolume": True,
                    "ebs": EVERY_EBS_FIELD,
                },
                {"rootVolume": False},
            ]
        },
        id="every-field-of-a-disk",
    ),
    *(
        pytest.param(ebs(volumeSize=text), id=f"volume-size-{text}")
        for text in ("1Gi", "59000Gi", "1G", "64000G", "1Ti", "17Ti", "58Ti", "1T", "64T")
    ),
    pytest.param({"metadataOptions": {"httpPutResponseHopLimit": 1}}, id="smallest-hop-limit"),
]

ACCEPTED = {"v1": ACCEPTED_V1, "v1beta1": ACCEPTED_V1BETA1}

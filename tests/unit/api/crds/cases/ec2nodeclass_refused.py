"""Specs that an EC2NodeClass may not have, by version: changes to a small valid one.

Each names the field the refusal must point at; those a CEL rule refuses also name words of its
message. Case numbers such as ``aws-8`` are those of the admission matrix.
"""

import pytest

from unit.api.crds.cases.ec2nodeclass_specs import (
    ABSENT,
    ALIAS,
    REFUSED_METADATA_OPTIONS,
    SUBNET_ID,
    TAGS,
    alias,
    ami,
    ebs,
    interfaces,
    old_ami,
    tagged,
)

MAIN_INTERFACE = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}

REFUSED_BY_RULE_IN_BOTH = [
    pytest.param(
        {"instanceProfile": "profile"},
        "spec",
        "either a role",
        id="aws-1-role-and-instance-profile",
    ),
    pytest.param(
        {"role": ABSENT}, "spec", "either a role", id="aws-2-neither-role-nor-instance-profile"
    ),
    pytest.param({"role": ""}, "spec.role", "name an IAM role", id="empty-role"),
    pytest.param(
        {"role": ABSENT, "instanceProfile": ""},
        "spec.instanceProfile",
        "name an instance profile",
        id="empty-instance-profile",
    ),
    pytest.param(
        {"securityGroupSelectorTerms": [{}]},
        "spec.securityGroupSelectorTerms[0]",
        "needs tags, an id or a name",
        id="security-group-term-without-fields",
    ),
    pytest.param(
        {"securityGroupSelectorTerms": [{"id": "sg-1", **TAGS}]},
        "spec.securityGroupSelectorTerms",
        "with an id cannot",
        marks=pytest.mark.row("S2-68"),
        id="security-group-id-with-tags",
    ),
    pytest.param(
        {"securityGroupSelectorTerms": [{"name": "a", **TAGS}]},
        "spec.securityGroupSelectorTerms",
        "with a name cannot",
        marks=pytest.mark.row("S2-68"),
        id="security-group-name-with-tags",
    ),
    pytest.param({"tags": {"": "x"}}, "spec.tags", "write a key", id="tag-without-key"),
    pytest.param(
        {"tags": {"kubernetes.io/cluster/x": "owned"}},
        "spec.tags",
        "kubernetes.io/cluster",
        id="aws-10-cluster-tag",
    ),
    pytest.param(
        ebs(volumeType="gp3"),
        "spec.blockDeviceMappings[0].ebs",
        "a snapshotID or a volumeSize",
        id="aws-12-neither-size-nor-snapshot",
    ),
    pytest.param(
        {"blockDeviceMappings": [{"rootVolume": True}, {"rootVolume": True}]},
        "spec.blockDeviceMappings",
        "only one disk",
        id="aws-11-two-root-volumes",
    ),
]

REFUSED_BY_RULE_V1 = [
    *REFUSED_BY_RULE_IN_BOTH,
    # subnets
    pytest.param(
        {"subnetSelectorTerms": [TAGS, {}]},
        "spec.subnetSelectorTerms[1]",
        "needs tags or an id",
        id="subnet-term-without-fields",
    ),
    pytest.param(
        {"subnetSelectorTerms": [{**SUBNET_ID, **TAGS}]},
        "spec.subnetSelectorTerms",
        "cannot have tags",
        id="aws-8-subnet-id-with-tags",
    ),
    pytest.param(
        {"subnetSelectorTerms": [{**SUBNET_ID, **TAGS}, {**SUBNET_ID, **TAGS}]},
        "spec.subnetSelectorTerms",
        "cannot have tags",
        id="every-subnet-term-mixes-id-and-tags",
    ),
    pytest.param(
        {"subnetSelectorTerms": [{"tags": {"": "x"}}]},
        "spec.subnetSelectorTerms[0].tags",
        "a key and a value",
        id="subnet-tag-without-key",
    ),
    pytest.param(
        {"subnetSelectorTerms": [{"tags": {"x": ""}}]},
        "spec.subnetSelectorTerms[0].tags",
        "a key and a value",
        id="subnet-tag-without-value",
    ),
    # security groups
    pytest.param(
        {"securityGroupSelectorTerms": [{"name": "a", **TAGS}, {"name": "b", "id": "sg-1"}]},
        "spec.securityGroupSelectorTerms",
        "with a name cannot",
        id="every-security-group-term-mixes-a-name",
    ),
    pytest.param(
        {"securityGroupSelectorTerms": [{"tags": {"": "x"}}]},
        "spec.securityGroupSelectorTerms[0].tags",
        "a key and a value",
        id="security-group-tag-without-key",
    ),
    # images
    pytest.param(
        ami({"owner": "self"}),
        "spec.amiSelectorTerms[0]",
        "an owner alone is not enough",
        id="aws-7-owner-alone",
    ),
    pytest.param(
        ami({}), "spec.amiSelectorTerms[0]", "needs an alias", id="ami-term-without-fields"
    ),
    *(
        pytest.param(
            ami({"id": "ami-2"}, {"id": "ami-1", **other}),
            "spec.amiSelectorTerms[1]",
            "with an id cannot",
            id=f"image-id-with-{next(iter(other))}",
        )
        for other in (TAGS, {"name": "a"}, {"owner": "self"})
    ),
    pytest.param(
        ami({"id": "ami-1", **ALIAS}),
        "spec.amiSelectorTerms[0]",
        "with an id cannot",
        id="image-id-with-alias",
    ),
    *(
        pytest.param(
            ami({**ALIAS, **other}),
            "spec.amiSelectorTerms[0]",
            "with an alias cannot",
            id=f"alias-with-{next(iter(other))}",
        )
        for other in (TAGS, {"name": "a"}, {"owner": "self"})
    ),
    pytest.param(
        ami(ALIAS, {"id": "ami-1"}),
        "spec.amiSelectorTerms",
        "the only AMI term",
        id="aws-6-alias-beside-another-term",
    ),
    pytest.param(
        ami(ALIAS, ALIAS), "spec.amiSelectorTerms", "the only AMI term", id="aws-6-two-aliases"
    ),
    pytest.param(
        ami({"tags": {"x": ""}}),
        "spec.amiSelectorTerms[0].tags",
        "a key and a value",
        id="image-tag-without-value",
    ),
    *(
        pytest.param(
            alias(text),
            "spec.amiSelectorTerms[0].alias",
            words,
            id=sentence,
        )
        for text, words, sentence in (
            ("al2023", "family@version", "alias-without-version"),
            ("al2023@", "family@version", "alias-with-empty-version"),
            ("al2023@v1@latest", "a single @", "alias-with-a-second-at-sign"),
            ("windows2022@1@latest", "a single @", "windows-alias-with-a-second-at-sign"),
            ("ubuntu@latest", "the family of an alias", "aws-5-alias-of-an-unknown-family"),
            ("AL2023@latest", "the family of an alias", "alias-family-in-capitals"),
            ("al20233@latest", "the family of an alias", "alias-family-with-a-letter-too-many"),
            ("windows2022@v1", "write latest", "aws-5-windows-alias-with-a-version"),
        )
    ),
    # families
    pytest.param(
        ami({"id": "ami-1"}, family=ABSENT),
        "spec",
        "amiFamily is required",
        id="aws-3-no-family-and-no-alias",
    ),
    *(
        pytest.param(
            alias(text, family),
            "spec",
            "the family of the alias, or Custom",
            id=f"family-{family}-with-alias-{text}",
        )
        for text, family in (
            ("al2023@latest", "AL2"),
            ("al2@latest", "AL2023"),
            ("al2@latest", "Bottlerocket"),
            ("windows2022@latest", "Windows2019"),
            ("windows2025@latest", "Windows2022"),
            ("bottlerocket@latest", "Windows2025"),
        )
    ),
    # tags
    pytest.param(
        {"tags": {"kubernetes.io/clusterx": ""}},
        "spec.tags",
        "kubernetes.io/cluster",
        id="cluster-tag-needs-no-slash",
    ),
    *(
        pytest.param({"tags": {key: "x"}}, "spec.tags", key, id=f"aws-10-tag-{key}")
        for key in (
            "eks:eks-cluster-name",
            "karpenter.sh/nodepool",
            "karpenter.sh/nodeclaim",
            "karpenter.k8s.aws/ec2nodeclass",
        )
    ),
    # disks
    pytest.param(
        ebs(volumeSize="1Gi", volumeInitializationRate=100),
        "spec.blockDeviceMappings[0].ebs",
        "give a snapshotID",
        id="aws-12-fill-rate-without-snapshot",
    ),
    *(
        pytest.param(
            ebs(volumeSize=text),
            "spec.blockDeviceMappings[0].ebs.volumeSize",
            "write a size",
            id=f"volume-size-{text or 'empty'}",
        )
        for text in (
            *("0Gi", "59001Gi", "60000Gi", "01Gi", "1.5Gi", "-1Gi"),
            *("0G", "64001G", "70000G"),
            *(
                "0Ti",
                "18Ti",
                "19Ti",
                "28Ti",
                "29Ti",
                "38Ti",
                "39Ti",
                "48Ti",
                "49Ti",
                "59Ti",
                "60Ti",
            ),
            *("0T", "65T", "70T"),
            *("", "Ti", "T", "100", "100Mi", "1Pi", "100gi", "x100Gi", "100Gix", "1 Gi"),
        )
    ),
    # capacity reservations
    pytest.param(
        {"capacityReservationSelectorTerms": [{"ownerID": "012345678901"}]},
        "spec.capacityReservationSelectorTerms[0]",
        "ownerID alone",
        id="aws-9-capacity-reservation-owner-alone",
    ),
    *(
        pytest.param(
            {"capacityReservationSelectorTerms": [{"id": "cr-1", **other}]},
            "spec.capacityReservationSelectorTerms",
            "cannot have other fields",
            id=f"capacity-reservation-id-with-{next(iter(other))}",
        )
        for other in (TAGS, {"ownerID": "012345678901"}, {"instanceMatchCriteria": "open"})
    ),
    pytest.param(
        {"capacityReservationSelectorTerms": [{"tags": {"": ""}}]},
        "spec.capacityReservationSelectorTerms[0].tags",
        "a key and a value",
        id="capacity-reservation-tag-without-key",
    ),
    # placement group
    pytest.param(
        {"placementGroupSelector": {}},
        "spec.placementGroupSelector",
        "either the name or the id",
        id="placement-group-without-fields",
    ),
    pytest.param(
        {"placementGroupSelector": {"name": "group", "id": "pg-1"}},
        "spec.placementGroupSelector",
        "either the name or the id",
        id="placement-group-by-name-and-id",
    ),
    pytest.param(
        {"placementGroupSelector": {"name": ""}},
        "spec.placementGroupSelector.name",
        "name a placement group",
        id="placement-group-with-empty-name",
    ),
    # network
    pytest.param(
        interfaces((0, 1, "interface"), (1, 0, "interface")),
        "spec.networkInterfaces",
        "the main interface",
        id="aws-14-no-interface-on-card-0-device-0",
    ),
    pytest.param(
        interfaces((0, 0, "efa-only"), (0, 1, "interface")),
        "spec.networkInterfaces",
        "the main interface",
        id="aws-14-main-interface-is-efa-only",
    ),
    pytest.param(
        interfaces((0, 0, "interface"), (0, 1, "interface"), (0, 1, "efa-only")),
        "spec.networkInterfaces",
        "cannot share",
        id="aws-14-two-interfaces-in-one-place",
    ),
    pytest.param(
        interfaces((0, 0, "interface"), (1, 0, "efa-only"), (1, 1, "efa-only")),
        "spec.networkInterfaces",
        "one efa-only interface",
        id="aws-14-two-efa-only-interfaces-on-one-card",
    ),
    pytest.param(
        {"connectionTracking": {}},
        "spec.connectionTracking",
        "leave connectionTracking out",
        id="aws-15-empty-connection-tracking",
    ),
]

REFUSED_BY_RULE_V1BETA1 = [
    *REFUSED_BY_RULE_IN_BOTH,
    pytest.param(
        {"amiFamily": "Custom"}, "spec", "needs amiSelectorTerms", id="custom-without-ami-terms"
    ),
    pytest.param(
        {"amiFamily": "Custom", **old_ami()},
        "spec",
        "needs amiSelectorTerms",
        id="custom-with-empty-ami-terms",
    ),
    # selectors
    pytest.param(
        {"subnetSelectorTerms": [{}]},
        "spec.subnetSelectorTerms[0]",
        "needs tags or an id",
        id="subnet-term-without-fields",
    ),
    pytest.param(
        {"subnetSelectorTerms": [{"id": "subnet-1", **TAGS}]},
        "spec.subnetSelectorTerms",
        "cannot have tags",
        id="subnet-id-with-tags",
    ),
    *(
        pytest.param(
            {field: [{"tags": tags}]},
            f"spec.{field}[0].tags",
            "a key and a value",
            id=f"tag-without-{missing}-in-{field}",
        )
        for field in ("subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms")
        for tags, missing in (({"": "x"}, "key"), ({"x": ""}, "value"))
    ),
    pytest.param(
        old_ami({"owner": "self"}),
        "spec.amiSelectorTerms[0]",
        "an owner alone is not enough",
        id="owner-alone",
    ),
    *(
        pytest.param(
            old_ami({"id": "ami-2"}, {"id": "ami-1", **other}),
            "spec.amiSelectorTerms[1]",
            "with an id cannot",
            id=f"image-id-with-{next(iter(other))}",
        )
        for other in (TAGS, {"name": "a"}, {"owner": "self"})
    ),
    # tags
    *(
        pytest.param({"tags": {key: "x"}}, "spec.tags", key, id=f"tag-{key}")
        for key in (
            "eks:eks-cluster-name",
            "karpenter.sh/nodepool",
            "karpenter.sh/nodeclaim",
            "karpenter.sh/managed-by",
            "karpenter.k8s.aws/ec2nodeclass",
        )
    ),
    # disks
    *(
        pytest.param(
            ebs(volumeSize=text),
            "spec.blockDeviceMappings[0].ebs.volumeSize",
            "write a size",
            id=f"volume-size-{text}",
        )
        for text in ("0Gi", "59001Gi", "64001G", "18Ti", "49Ti", "59Ti", "65T", "100", "100Mi")
    ),
]

REFUSED_BY_RULE = {"v1": REFUSED_BY_RULE_V1, "v1beta1": REFUSED_BY_RULE_V1BETA1}

REFUSED_BY_SCHEMA_IN_BOTH = [
    pytest.param({"subnetSelectorTerms": ABSENT}, "spec.subnetSelectorTerms", id="no-subnets"),
    pytest.param({"subnetSelectorTerms": []}, "spec.subnetSelectorTerms", id="empty-subnets"),
    pytest.param(
        {"subnetSelectorTerms": [TAGS] * 31}, "spec.subnetSelectorTerms", id="31-subnet-terms"
    ),
    pytest.param(
        {"subnetSelectorTerms": [{"id": "0a1b"}]},
        "spec.subnetSelectorTerms[0].id",
        id="subnet-id-without-prefix",
    ),
    pytest.param(
        {"securityGroupSelectorTerms": ABSENT},
        "spec.securityGroupSelectorTerms",
        id="no-security-groups",
    ),
    pytest.param(
        {"securityGroupSelectorTerms": []},
        "spec.securityGroupSelectorTerms",
        id="empty-security-groups",
    ),
    pytest.param(
        {"securityGroupSelectorTerms": [TAGS] * 31},
        "spec.securityGroupSelectorTerms",
        id="31-security-group-terms",
    ),
    pytest.param(
        {"securityGroupSelectorTerms": [{"id": "abc-123"}]},
        "spec.securityGroupSelectorTerms[0].id",
        id="security-group-id-without-prefix",
    ),
    pytest.param(
        {"amiSelectorTerms": {"tags": {"a": "b"}}}, "spec.amiSelectorTerms", id="images-as-a-map"
    ),
    pytest.param(
        {"blockDeviceMappings": [{"deviceName": "/dev/xvdb"}] * 51},
        "spec.blockDeviceMappings",
        id="51-disks",
    ),
    pytest.param(
        ebs(volumeSize="1Gi", volumeType="gp4"),
        "spec.blockDeviceMappings[0].ebs.volumeType",
        id="unknown-volume-type",
    ),
    pytest.param(
        ebs(volumeSize="1Gi", iops=2**63),
        "spec.blockDeviceMappings[0].ebs.iops",
        id="iops-beyond-64-bits",
    ),
    pytest.param(
        ebs(volumeSize="1Gi", throughput=2**63),
        "spec.blockDeviceMappings[0].ebs.throughput",
        id="throughput-beyond-64-bits",
    ),
    pytest.param(
        ebs(volumeSize="1" * 33), "spec.blockDeviceMappings[0].ebs.volumeSize", id="endless-size"
    ),
    pytest.param({"instanceStorePolicy": "RAID1"}, "spec.instanceStorePolicy", id="raid1"),
    *REFUSED_METADATA_OPTIONS,
]

REFUSED_BY_SCHEMA_V1 = [
    *REFUSED_BY_SCHEMA_IN_BOTH,
    pytest.param(
        {"subnetSelectorTerms": [{"id": "subnet-ABC"}]},
        "spec.subnetSelectorTerms[0].id",
        id="subnet-id-in-capitals",
    ),
    *(
        pytest.param({field: tagged(21)}, f"spec.{field}[0].tags", id=f"21-tags-in-{field}")
        for field in (
            "subnetSelectorTerms",
            "securityGroupSelectorTerms",
            "capacityReservationSelectorTerms",
        )
    ),
    pytest.param(ami(*tagged(21)), "spec.amiSelectorTerms[0].tags", id="21-image-tags"),
    pytest.param(
        {"subnetSelectorTerms": [{"tags": {"a": 1}}]},
        "spec.subnetSelectorTerms[0].tags.a",
        id="selector-tag-that-is-a-number",
    ),
    pytest.param({"amiSelectorTerms": ABSENT}, "spec.amiSelectorTerms", id="no-images"),
    pytest.param(ami(), "spec.amiSelectorTerms", id="empty-images"),
    pytest.param(ami(*[{"id": "ami-1"}] * 31), "spec.amiSelectorTerms", id="31-ami-terms"),
    pytest.param(
        ami({"id": "image-1"}), "spec.amiSelectorTerms[0].id", id="image-id-without-prefix"
    ),
    pytest.param(
        alias("al2023@" + "v" * 24),
        "spec.amiSelectorTerms[0].alias",
        id="aws-5-alias-of-31-characters",
    ),
    pytest.param(ami({"id": "ami-1"}, family="Ubuntu"), "spec.amiFamily", id="ubuntu-is-gone"),
    pytest.param(ami({"id": "ami-1"}, family="al2"), "spec.amiFamily", id="family-in-lower-case"),
    pytest.param({"tags": {"a": True}}, "spec.tags.a", id="tag-that-is-a-boolean"),
    pytest.param({"kubelet": "maxPods: 20"}, "spec.kubelet", id="kubelet-as-text"),
    pytest.param(
        ebs(volumeSize=100), "spec.blockDeviceMappings[0].ebs.volumeSize", id="size-as-a-number"
    ),
    pytest.param(
        ebs(volumeSize="1Gi", iops="3000"),
        "spec.blockDeviceMappings[0].ebs.iops",
        id="iops-as-text",
    ),
    pytest.param(
        ebs(snapshotID="snap-1", volumeInitializationRate=99),
        "spec.blockDeviceMappings[0].ebs.volumeInitializationRate",
        id="aws-12-fill-rate-99",
    ),
    pytest.param(
        ebs(snapshotID="snap-1", volumeInitializationRate=301),
        "spec.blockDeviceMappings[0].ebs.volumeInitializationRate",
        id="aws-12-fill-rate-301",
    ),
    pytest.param({"detailedMonitoring": "yes"}, "spec.detailedMonitoring", id="monitoring-as-text"),
    pytest.param({"ipPrefixCount": -1}, "spec.ipPrefixCount", id="negative-prefix-count"),
    pytest.param({"ipPrefixCount": 2**31}, "spec.ipPrefixCount", id="prefix-count-beyond-32-bits"),
    pytest.param(
        {"cpuOptions": {"nestedVirtualization": "on"}},
        "spec.cpuOptions.nestedVirtualization",
        id="nested-virtualization-on",
    ),
    pytest.param(
        {"capacityReservationSelectorTerms": [{"instanceMatchCriteria": "open"}] * 31},
        "spec.capacityReservationSelectorTerms",
        id="31-capacity-reservation-terms",
    ),
    *(
        pytest.param(
            {"capacityReservationSelectorTerms": [{"tags": {"a": "b"}, field: value}, TAGS]},
            f"spec.capacityReservationSelectorTerms[0].{field}",
            id=sentence,
        )
        for field, value, sentence in (
            ("id", "cr_1", "aws-9-capacity-reservation-id-with-underscore"),
            ("id", "my-cr-1", "capacity-reservation-id-is-matched-whole"),
            ("ownerID", "01234567890", "owner-of-eleven-digits"),
            ("ownerID", "0123456789012", "owner-of-thirteen-digits"),
            ("instanceMatchCriteria", "closed", "unknown-match-criteria"),
        )
    ),
    pytest.param(
        {"placementGroupSelector": {"id": "my-pg-1"}},
        "spec.placementGroupSelector.id",
        id="placement-group-id-is-matched-whole",
    ),
    pytest.param(
        interfaces(*((card, 0, "interface") for card in range(151))),
        "spec.networkInterfaces",
        id="151-network-interfaces",
    ),
    *(
        pytest.param(
            {"networkInterfaces": [MAIN_INTERFACE, {**MAIN_INTERFACE, field: value}]},
            f"spec.networkInterfaces[1].{field}",
            id=f"{field}-{value}",
        )
        for field, value in (
            ("networkCardIndex", -1),
            ("networkCardIndex", 2**31),
            ("deviceIndex", -1),
            ("deviceIndex", 2**31),
            ("interfaceType", "efa"),
        )
    ),
    *(
        pytest.param(
            {
                "networkInterfaces": [
                    MAIN_INTERFACE,
                    {name: 1 for name in MAIN_INTERFACE if name != missing}
                    | ({} if missing == "interfaceType" else {"interfaceType": "interface"}),
                ]
            },
            f"spec.networkInterfaces[1].{missing}",
            id=f"interface-without-{missing}",
        )
        for missing in MAIN_INTERFACE
    ),
    *(
        pytest.param(
            {"connectionTracking": {field: seconds}},
            f"spec.connectionTracking.{field}",
            id=f"aws-15-{field}-{seconds}",
        )
        for field, seconds in (
            ("tcpEstablishedTimeout", 59),
            ("tcpEstablishedTimeout", 432001),
            ("udpStreamTimeout", 59),
            ("udpStreamTimeout", 181),
            ("udpTimeout", 29),
            ("udpTimeout", 61),
        )
    ),
]

REFUSED_BY_SCHEMA_V1BETA1 = [
    *REFUSED_BY_SCHEMA_IN_BOTH,
    pytest.param({"amiFamily": ABSENT}, "spec.amiFamily", id="no-family"),
    pytest.param({"amiFamily": "Windows2025"}, "spec.amiFamily", id="windows2025-came-later"),
    *(
        pytest.param({field: tagged(21)}, f"spec.{field}[0].tags", id=f"21-tags-in-{field}")
        for field in ("subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms")
    ),
    pytest.param(old_ami(*[{"id": "ami-1"}] * 31), "spec.amiSelectorTerms", id="31-ami-terms"),
    pytest.param(
        old_ami({"id": "image-1"}), "spec.amiSelectorTerms[0].id", id="image-id-without-prefix"
    ),
]

REFUSED_BY_SCHEMA = {"v1": REFUSED_BY_SCHEMA_V1, "v1beta1": REFUSED_BY_SCHEMA_V1BETA1}

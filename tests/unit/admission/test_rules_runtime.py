"""What the controllers refuse on stored v1 objects, and what they only warn about."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.admission.runtime import ami_family, runtime_findings
from unit.admission.rule_cases import json_values, refused, rendered, seed, warned

TEMPLATE = "spec.template"
REQUIREMENT = f"{TEMPLATE}.spec.requirements[0]"
EC2_CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def requirement(key: str, *values: str, operator: str = "In", **rest: Any) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values), **rest}


def node_pool(
    *requirements: dict[str, Any],
    labels: dict[str, str] | None = None,
    version: str = "v1",
    **spec: Any,
) -> dict[str, Any]:
    return {
        "apiVersion": f"karpenter.sh/{version}",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {
                "metadata": {"labels": labels or {}},
                "spec": {"nodeClassRef": EC2_CLASS, "requirements": list(requirements), **spec},
            }
        },
    }


def node_claim(*requirements: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "default-abcde"},
        "spec": {"nodeClassRef": EC2_CLASS, "requirements": list(requirements), **spec},
    }


def node_overlay(*requirements: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "cheaper"},
        "spec": {"requirements": list(requirements), **spec},
    }


def node_class(kubelet: object, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {"kubelet": kubelet, **spec},
    }


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("team", id="a-key-without-a-domain"),
        pytest.param("example.com/team", id="a-key-of-a-custom-domain"),
        pytest.param("karpenter.sh/capacity-type", id="the-capacity-type"),
        pytest.param("topology.kubernetes.io/zone", id="a-core-well-known-key"),
        pytest.param("karpenter.k8s.aws/instance-cpu", id="an-aws-well-known-key"),
        pytest.param("topology.k8s.aws/zone-id", id="the-aws-zone-id"),
        pytest.param("beta.kubernetes.io/arch", id="a-deprecated-alias"),
        pytest.param("topology.ebs.csi.aws.com/zone", id="the-csi-zone-alias"),
        pytest.param("kubernetes.io/custom", id="the-kubernetes-domain-in-v1"),
        pytest.param("sub.k8s.io/custom", id="a-sub-domain-of-k8s-io"),
        pytest.param("notkarpenter.sh/x", id="a-domain-that-merely-ends-in-karpenter-sh"),
        pytest.param("notkarpenter.k8s.aws/x", id="a-domain-that-merely-ends-in-the-aws-one"),
    ],
)
def test_a_pool_may_use_as_label_and_as_requirement(key: str) -> None:
    findings = runtime_findings(
        node_pool(requirement(key, operator="Exists"), labels={key: "spot"})
    )

    assert rendered(findings) == []


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("karpenter.sh/nodepool", id="the-pool-name"),
        pytest.param("karpenter.sh/registered", id="another-karpenter-key"),
        pytest.param("example.karpenter.sh/x", id="a-sub-domain-of-karpenter-sh"),
        pytest.param("kubernetes.io/hostname", id="the-hostname"),
        pytest.param("karpenter.k8s.aws/ec2nodeclass", id="the-node-class-name"),
        pytest.param("karpenter.k8s.aws/custom", id="an-unknown-aws-key"),
        pytest.param("sub.karpenter.k8s.aws/x", id="a-sub-domain-of-the-aws-domain"),
        pytest.param("two/slashes/x", id="a-key-with-two-slashes"),
        pytest.param("Upper.com/x", id="an-upper-case-domain"),
        pytest.param("example.com/" + "x" * 64, id="a-name-of-64-characters"),
        pytest.param("x" * 254 + "/y", id="a-prefix-of-254-characters"),
        pytest.param("???", id="not-a-key-at-all"),
    ],
)
def test_a_pool_may_not_use_as_label_or_requirement(key: str) -> None:
    findings = runtime_findings(
        node_pool(requirement(key, operator="Exists"), labels={key: "spot"})
    )

    assert [
        ("spec", "template", "metadata", "labels", key),
        ("spec", "template", "spec", "requirements", 0, "key"),
    ] == [error.path for error in findings.errors]


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        pytest.param("", True, id="empty"),
        pytest.param("a" * 63, True, id="63-characters"),
        pytest.param("a_b.c-d", True, id="dots-dashes-underscores-inside"),
        pytest.param("a" * 64, False, id="64-characters"),
        pytest.param("hi there", False, id="a-blank-inside"),
        pytest.param("-a", False, id="a-dash-in-front"),
    ],
)
def test_values_follow_the_label_grammar(value: str, accepted: bool) -> None:
    findings = runtime_findings(node_pool(requirement("team", "ok", value), labels={"team": value}))

    expected = [] if accepted else [f"{TEMPLATE}.metadata.labels.team", f"{REQUIREMENT}.values[1]"]
    assert expected == refused(findings)


@pytest.mark.parametrize(
    ("provider", "group", "kind"),
    [
        pytest.param("kwok", "karpenter.kwok.sh", "KWOKNodeClass", id="of-the-active-provider"),
        pytest.param("kwok", "karpenter.k8s.aws", "EC2NodeClass", id="of-another-known-provider"),
        pytest.param("acme", "acme.example.com", "AcmeNodeClass", id="of-a-third-party-provider"),
    ],
)
def test_a_pool_may_not_set_the_label_of_its_own_node_class(
    provider: str, group: str, kind: str
) -> None:
    key = f"{group}/{kind.lower()}"
    pool = node_pool(
        requirement(key, "default"),
        labels={key: "default"},
        nodeClassRef={"group": group, "kind": kind, "name": "default"},
    )

    findings = runtime_findings(pool, provider=provider)

    assert [
        f"{TEMPLATE}.metadata.labels[{key}]",
        f"{REQUIREMENT}.key",
    ] == sorted(refused(findings))


@pytest.mark.parametrize(
    ("provider", "accepted"),
    [
        pytest.param("kwok", True, id="kwok-knows-its-own-keys"),
        pytest.param("aws", True, id="to-aws-it-is-a-custom-key"),
    ],
)
def test_kwok_keys(provider: str, accepted: bool) -> None:
    pool = node_pool(requirement("karpenter.kwok.sh/instance-cpu", "4"))

    assert accepted == (not runtime_findings(pool, provider=provider).errors)


@pytest.mark.row("S2-85")
def test_a_misspelt_key_is_a_custom_label_and_warned_about() -> None:
    pool = node_pool(
        requirement("node.kubernetes.io/instnace-type", "m6g.16xlarge", operator="NotIn"),
        labels={"topology.kubernetes.io/zones": "a"},
    )

    findings = runtime_findings(pool)

    assert refused(findings) == []
    assert warned(findings) == [
        (
            f"{TEMPLATE}.metadata.labels[topology.kubernetes.io/zones]: label"
            " topology.kubernetes.io/zones has no special meaning;"
            " did you mean topology.kubernetes.io/zone?"
        ),
        (
            f"{REQUIREMENT}.key: label node.kubernetes.io/instnace-type has no special meaning;"
            " did you mean node.kubernetes.io/instance-type?"
        ),
    ]


def test_the_seed_pool_that_excludes_types_passes_without_a_word() -> None:
    (pool,) = seed("s002-nodepool-notin-instancetype")

    assert rendered(runtime_findings(pool)) == []


def test_a_misspelt_key_of_a_reserved_domain_is_refused_with_the_right_one() -> None:
    (error,) = runtime_findings(node_pool(requirement("karpenter.sh/capacity-typ", "spot"))).errors

    assert error.detail.endswith("; did you mean karpenter.sh/capacity-type?")


@pytest.mark.parametrize(
    ("asked", "errors", "warnings"),
    [
        pytest.param(
            requirement("karpenter.sh/capacity-type", "spot", "on-demand", "reserved"),
            [],
            [],
            id="all-capacity-types",
        ),
        pytest.param(
            requirement("karpenter.sh/capacity-type", "sport"),
            [f"{REQUIREMENT}.values"],
            [],
            id="no-known-capacity-type",
        ),
        pytest.param(
            requirement("karpenter.sh/capacity-type", "spot", "sport"),
            [],
            [f"{REQUIREMENT}.values: sport will never match; known are on-demand, reserved, spot"],
            id="one-known-and-one-unknown-capacity-type-is-used-with-a-warning",
        ),
        pytest.param(
            requirement("karpenter.sh/capacity-type", "spot", "sport", minValues=2),
            [f"{REQUIREMENT}.minValues"],
            [],
            id="fewer-known-values-than-min-values",
        ),
        pytest.param(
            requirement("karpenter.sh/capacity-type", "spot", "spot", minValues=2),
            [f"{REQUIREMENT}.minValues"],
            [],
            id="a-repeated-value-counts-once-for-min-values",
        ),
        pytest.param(
            requirement("karpenter.sh/capacity-type", "spot", "on-demand", minValues=2),
            [],
            [],
            id="enough-known-values-for-min-values",
        ),
        pytest.param(
            requirement("karpenter.sh/capacity-type", "sport", operator="NotIn"),
            [],
            [],
            id="excluding-an-unknown-value-is-harmless",
        ),
        pytest.param(
            requirement("karpenter.k8s.aws/instance-tenancy", "default", "dedicated"),
            [],
            [],
            id="both-tenancies",
        ),
        pytest.param(
            requirement("karpenter.k8s.aws/instance-tenancy", "host"),
            [f"{REQUIREMENT}.values"],
            [],
            id="no-known-tenancy",
        ),
        pytest.param(
            requirement("karpenter.k8s.aws/instance-tenancy", "default", "host"),
            [],
            [f"{REQUIREMENT}.values: host will never match; known are dedicated, default"],
            id="one-known-and-one-unknown-tenancy",
        ),
    ],
)
def test_keys_with_known_values(
    asked: dict[str, Any], errors: list[str], warnings: list[str]
) -> None:
    findings = runtime_findings(node_pool(asked))

    assert (errors, warnings) == (refused(findings), warned(findings))


@pytest.mark.parametrize(
    ("taint", "places"),
    [
        pytest.param({"key": "example.com/a", "effect": "NoSchedule"}, [], id="key-and-effect"),
        pytest.param({"key": "a", "value": "b", "effect": "NoExecute"}, [], id="with-a-value"),
        pytest.param({"key": "a", "value": "x.io/b", "effect": "PreferNoSchedule"}, [], id="qname"),
        pytest.param({"key": "", "effect": "NoSchedule"}, ["key"], id="empty-key"),
        pytest.param({"effect": "NoSchedule"}, ["key"], id="no-key"),
        pytest.param({"key": "???", "effect": "NoSchedule"}, ["key"], id="bad-key"),
        pytest.param(
            {"key": "a", "value": "b c", "effect": "NoExecute"}, ["value"], id="bad-value"
        ),
        pytest.param({"key": "a", "effect": "Never"}, ["effect"], id="unknown-effect"),
        pytest.param({"key": "a"}, ["effect"], id="no-effect"),
    ],
)
@pytest.mark.parametrize("field", ["taints", "startupTaints"])
def test_taints(field: str, taint: dict[str, str], places: list[str]) -> None:
    spec: dict[str, Any] = {field: [taint]}

    findings = runtime_findings(node_pool(**spec))

    assert [f"{TEMPLATE}.spec.{field}[0].{place}" for place in places] == refused(findings)


@pytest.mark.parametrize(
    ("obj", "errors"),
    [
        pytest.param(
            node_claim(requirement("karpenter.sh/capacity-type", "sport")),
            ["spec.requirements[0].values"],
            id="a-claim-must-ask-for-a-known-one",
        ),
        pytest.param(
            node_overlay(requirement("karpenter.sh/capacity-type", "sport")),
            [],
            id="an-overlay-just-matches-nothing",
        ),
        pytest.param(
            node_pool(requirement("karpenter.sh/capacity-type", "sport"), version="v1beta1"),
            [],
            id="a-v1beta1-pool-was-not-asked",
        ),
    ],
)
def test_known_values_elsewhere(obj: dict[str, Any], errors: list[str]) -> None:
    assert errors == refused(runtime_findings(obj))


def test_tenancy_is_a_custom_label_to_other_providers() -> None:
    pool = node_pool(requirement("karpenter.k8s.aws/instance-tenancy", "host"))

    assert rendered(runtime_findings(pool, provider="kwok")) == []


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        pytest.param("two\nlines", "two\\nlines", id="a-line-break"),
        pytest.param("\ud800", "\\ud800", id="half-a-surrogate-pair"),
    ],
)
def test_no_key_can_tear_its_message_apart(key: str, shown: str) -> None:
    (line,) = rendered(runtime_findings(node_pool(labels={key: "x"})))

    assert line.startswith(f"{TEMPLATE}.metadata.labels[{shown}]: Invalid value: ")
    assert line.isprintable()


NO_SCHEDULE = {"key": "a", "effect": "NoSchedule"}
NO_EXECUTE = {"key": "a", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("taints", "startup_taints", "places"),
    [
        pytest.param([NO_SCHEDULE], [NO_EXECUTE], [], id="same-key-other-effect"),
        pytest.param([NO_SCHEDULE, NO_SCHEDULE], [], ["taints[1]"], id="twice-in-one-list"),
        pytest.param([NO_SCHEDULE], [NO_SCHEDULE], ["startupTaints[0]"], id="across-both-lists"),
        pytest.param(
            [{**NO_SCHEDULE, "value": "x"}],
            [{**NO_SCHEDULE, "value": "y"}],
            ["startupTaints[0]"],
            id="the-value-does-not-tell-them-apart",
        ),
    ],
)
def test_a_taint_is_unique_by_key_and_effect(
    taints: list[Any], startup_taints: list[Any], places: list[str]
) -> None:
    findings = runtime_findings(node_pool(taints=taints, startupTaints=startup_taints))

    assert [f"{TEMPLATE}.spec.{place}" for place in places] == refused(findings)


@pytest.mark.parametrize(
    ("key", "accepted"),
    [
        pytest.param("karpenter.sh/nodepool", True, id="the-pool-name"),
        pytest.param(
            "karpenter.k8s.aws/ec2nodeclass", True, id="the-node-class-created-claims-name"
        ),
        pytest.param("karpenter.sh/capacity-type", True, id="the-capacity-type"),
        pytest.param("karpenter.sh/registered", False, id="another-karpenter-key"),
        pytest.param("karpenter.k8s.aws/custom", False, id="an-unknown-aws-key"),
        pytest.param("kubernetes.io/hostname", False, id="the-hostname"),
    ],
)
def test_a_claim_may_require(key: str, accepted: bool) -> None:
    findings = runtime_findings(node_claim(requirement(key, operator="Exists")))

    assert ([] if accepted else ["spec.requirements[0].key"]) == refused(findings)


def test_a_claim_may_not_repeat_a_taint() -> None:
    findings = runtime_findings(node_claim(taints=[NO_SCHEDULE], startupTaints=[NO_SCHEDULE]))

    assert refused(findings) == ["spec.startupTaints[0]"]


@pytest.mark.parametrize(
    ("key", "accepted"),
    [
        pytest.param("karpenter.sh/nodepool", True, id="the-pool-name"),
        pytest.param("karpenter.sh/capacity-type", True, id="the-capacity-type"),
        pytest.param("karpenter.k8s.aws/instance-family", True, id="an-aws-fact"),
        pytest.param("example.com/team", True, id="a-custom-key"),
        pytest.param("karpenter.sh/registered", False, id="another-karpenter-key"),
        pytest.param("kubernetes.io/hostname", False, id="the-hostname"),
        pytest.param("karpenter.k8s.aws/instance-tenancy", False, id="the-tenancy"),
        pytest.param("karpenter.k8s.aws/capacity-reservation-id", False, id="the-reservation"),
        pytest.param("karpenter.k8s.aws/capacity-reservation-type", False, id="its-type"),
        pytest.param("karpenter.k8s.aws/capacity-reservation-interruptible", False, id="its-kind"),
        pytest.param("karpenter.k8s.aws/placement-group-id", False, id="the-placement-group"),
        pytest.param("karpenter.k8s.aws/placement-group-partition", False, id="its-partition"),
    ],
)
def test_an_overlay_may_require(key: str, accepted: bool) -> None:
    findings = runtime_findings(node_overlay(requirement(key, operator="Exists")))

    assert ([] if accepted else ["spec.requirements[0].key"]) == refused(findings)


@pytest.mark.parametrize(
    ("resource", "provider", "accepted"),
    [
        pytest.param("smarter-devices/fuse", "aws", True, id="a-resource-of-a-device-plugin"),
        pytest.param("nvidia.com/gpu", "aws", True, id="nvidia-gpus"),
        pytest.param("vpc.amazonaws.com/pod-eni", "aws", False, id="pod-enis"),
        pytest.param("vpc.amazonaws.com/efa", "aws", False, id="efa-devices"),
        pytest.param("aws.amazon.com/neuron", "aws", False, id="neuron-devices"),
        pytest.param("aws.amazon.com/neuroncore", "aws", False, id="neuron-cores"),
        pytest.param("habana.ai/gaudi", "aws", False, id="gaudi-accelerators"),
        pytest.param("habana.ai/gaudi", "kwok", True, id="only-aws-objects"),
    ],
)
def test_an_overlay_may_add_the_resource(resource: str, provider: str, accepted: bool) -> None:
    findings = runtime_findings(node_overlay(capacity={resource: "1"}), provider=provider)

    assert ([] if accepted else [f"spec.capacity[{resource}]"]) == refused(findings)


@pytest.mark.parametrize(
    ("key", "accepted"),
    [
        pytest.param("kubernetes.io/custom", False, id="kubernetes-io-was-reserved"),
        pytest.param("k8s.io/custom", False, id="k8s-io-was-reserved"),
        pytest.param("node.kubernetes.io/custom", True, id="node-kubernetes-io-was-free"),
        pytest.param("node-restriction.kubernetes.io/x", True, id="node-restriction-was-free"),
        pytest.param("kops.k8s.io/x", True, id="kops-was-free"),
        pytest.param("kubernetes.io/arch", True, id="well-known-keys-were-allowed"),
    ],
)
def test_v1beta1_pools_keep_the_older_reserved_domains(key: str, accepted: bool) -> None:
    pool = node_pool(requirement(key, operator="Exists"), version="v1beta1")

    assert ([] if accepted else [f"{REQUIREMENT}.key"]) == refused(runtime_findings(pool))


@pytest.mark.parametrize(
    ("spec", "family"),
    [
        pytest.param({"amiFamily": "AL2023"}, "AL2023", id="named"),
        pytest.param({"amiSelectorTerms": [{"alias": "al2@latest"}]}, "AL2", id="by-alias"),
        pytest.param(
            {"amiFamily": "Custom", "amiSelectorTerms": [{"alias": "al2023@latest"}]},
            "Custom",
            id="the-name-wins-over-the-alias",
        ),
        pytest.param(
            {"amiSelectorTerms": [{"alias": "windows2025@latest"}]}, "Windows2025", id="windows"
        ),
        pytest.param({"amiSelectorTerms": [{"id": "ami-1"}]}, "Custom", id="neither"),
        pytest.param({"amiSelectorTerms": "odd"}, "Custom", id="nonsense"),
    ],
)
def test_ami_family(spec: dict[str, Any], family: str) -> None:
    assert family == ami_family(spec)


def test_the_kubelet_settings_are_judged_for_the_family_of_the_alias() -> None:
    bottlerocket = [{"alias": "bottlerocket@latest"}]

    findings = runtime_findings(node_class({"podsPerCore": 4}, amiSelectorTerms=bottlerocket))

    assert refused(findings) == ["spec.kubelet.podsPerCore"]


@pytest.mark.parametrize(
    ("expressions", "places"),
    [
        pytest.param(False, ["spec.kubelet.maxPods"], id="refused-without-the-gate"),
        pytest.param(True, [], id="accepted-with-the-gate"),
    ],
)
def test_a_node_class_with_an_expression(expressions: bool, places: list[str]) -> None:
    findings = runtime_findings(
        node_class({"maxPods": "vcpus * 8"}, amiFamily="AL2023"), expressions=expressions
    )

    assert places == refused(findings)


def test_kinds_without_runtime_rules_have_no_findings() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"requirements": [{"key": "???"}]}}

    assert rendered(runtime_findings(pod)) == []


FIELDS = st.sampled_from(
    [
        *("template", "metadata", "spec", "labels", "requirements", "nodeClassRef", "taints"),
        *("startupTaints", "key", "operator", "values", "minValues", "effect", "value"),
        *("capacity", "kubelet", "amiFamily", "amiSelectorTerms", "alias", "evictionSoft"),
        *("evictionHard", "kubeReserved", "maxPods", "clusterDNS", "karpenter.sh/capacity-type"),
    ]
)
KINDS = [
    ("karpenter.sh/v1", "NodePool"),
    ("karpenter.sh/v1", "NodeClaim"),
    ("karpenter.sh/v1alpha1", "NodeOverlay"),
    ("karpenter.k8s.aws/v1", "EC2NodeClass"),
]


@settings(deadline=None)
@given(
    st.sampled_from(KINDS),
    st.dictionaries(FIELDS, json_values(FIELDS), max_size=5) | json_values(FIELDS),
    st.booleans(),
)
def test_no_spec_is_odd_enough_to_raise(kind: tuple[str, str], spec: Any, gate: bool) -> None:
    obj = {"apiVersion": kind[0], "kind": kind[1], "spec": spec}

    lines = rendered(runtime_findings(obj, expressions=gate))

    assert all(line and "\n" not in line for line in lines)

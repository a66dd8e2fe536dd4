"""What the legacy webhook accepts and refuses on a v1alpha5 Provisioner."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.admission.errors import ErrorKind
from karpenter.admission.legacy.provisioner import EMPTINESS_EXCLUDES_CONSOLIDATION
from karpenter.admission.legacy.webhook import legacy_findings
from unit.admission.rule_cases import json_values, refused, rendered, seed, warned

INLINE = {
    "subnetSelector": {"karpenter.sh/discovery": "demo"},
    "securityGroupSelector": {"karpenter.sh/discovery": "demo"},
}


def provisioner(**spec: Any) -> dict[str, Any]:
    reference = {} if "provider" in spec else {"providerRef": {"name": "default"}}
    return {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "default"},
        "spec": {**reference, **spec},
    }


def requirement(key: str, operator: str = "Exists", *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("billing-team", id="a-custom-key"),
        pytest.param("example.com/team", id="a-custom-domain"),
        pytest.param("karpenter.sh/capacity-type", id="the-capacity-type"),
        pytest.param("node.kubernetes.io/instance-type", id="a-core-well-known-key"),
        pytest.param("karpenter.k8s.aws/instance-hypervisor", id="an-aws-well-known-key"),
        pytest.param("karpenter.k8s.aws/instance-pods", id="a-key-the-alpha-api-still-knew"),
        pytest.param("failure-domain.beta.kubernetes.io/zone", id="a-deprecated-alias"),
        pytest.param("kops.k8s.io/instancegroup", id="the-kops-domain"),
        pytest.param("node.kubernetes.io/custom", id="the-node-domain"),
        pytest.param("sub.node.kubernetes.io/custom", id="a-sub-domain-of-the-node-domain"),
        pytest.param("node-restriction.kubernetes.io/x", id="the-node-restriction-domain"),
        pytest.param("notk8s.io/x", id="a-domain-that-merely-ends-in-k8s-io"),
    ],
)
def test_a_provisioner_may_use_as_label_and_as_requirement(key: str) -> None:
    findings = legacy_findings(provisioner(labels={key: "x"}, requirements=[requirement(key)]))

    assert rendered(findings) == []


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("karpenter.sh/provisioner-name", id="its-own-name"),
        pytest.param("karpenter.sh/emptiness-timestamp", id="the-emptiness-timestamp"),
        pytest.param("kubernetes.io/hostname", id="the-hostname"),
        pytest.param("kubernetes.io/custom", id="the-kubernetes-domain"),
        pytest.param("sub.kubernetes.io/custom", id="a-sub-domain-of-it"),
        pytest.param("k8s.io/custom", id="the-k8s-domain"),
        pytest.param("karpenter.sh/custom", id="the-karpenter-domain"),
        pytest.param("karpenter.k8s.aws/custom", id="the-aws-domain"),
        pytest.param("a/b/c", id="two-slashes"),
        pytest.param("", id="empty"),
    ],
)
def test_a_provisioner_may_not_use_as_label_or_requirement(key: str) -> None:
    findings = legacy_findings(provisioner(labels={key: "x"}, requirements=[requirement(key)]))

    assert [("spec", "labels", key), ("spec", "requirements", 0, "key")] == [
        error.path for error in findings.errors
    ]


@pytest.mark.row("S2-85")
def test_a_misspelt_key_is_warned_about() -> None:
    findings = legacy_findings(
        provisioner(requirements=[requirement("node.kubernetes.io/instnace-type")])
    )

    (warning,) = warned(findings)
    assert warning == (
        "spec.requirements[0].key: label node.kubernetes.io/instnace-type has no special meaning;"
        " did you mean node.kubernetes.io/instance-type?"
    )


@pytest.mark.parametrize(
    ("value", "places"),
    [
        pytest.param("my-team", [], id="a-plain-word"),
        pytest.param("", [], id="empty"),
        pytest.param(
            "my team", ["spec.labels.team", "spec.requirements[0].values[0]"], id="a-blank-inside"
        ),
    ],
)
def test_values_follow_the_label_grammar(value: str, places: list[str]) -> None:
    findings = legacy_findings(
        provisioner(labels={"team": value}, requirements=[requirement("team", "In", value)])
    )

    assert places == refused(findings)


@pytest.mark.parametrize(
    ("operator", "values", "place"),
    [
        pytest.param("In", ["a"], None, id="in-with-a-value"),
        pytest.param("NotIn", ["a"], None, id="not-in-with-a-value"),
        pytest.param("NotIn", [], None, id="not-in-without-values"),
        pytest.param("Exists", [], None, id="exists"),
        pytest.param("DoesNotExist", [], None, id="does-not-exist"),
        pytest.param("Gt", ["2"], None, id="gt-with-an-integer"),
        pytest.param("Lt", ["0"], None, id="lt-with-zero"),
        pytest.param("In", [], "values", id="in-without-values"),
        pytest.param("Gt", [], "values", id="gt-without-a-value"),
        pytest.param("Gt", ["1", "2"], "values", id="gt-with-two-values"),
        pytest.param("Lt", ["many"], "values", id="lt-with-a-word"),
        pytest.param("Gte", ["1"], "operator", id="gte-came-later"),
        pytest.param("Lte", ["1"], "operator", id="lte-came-later"),
        pytest.param("Equals", ["1"], "operator", id="an-unknown-operator"),
    ],
)
def test_operators(operator: str, values: list[str], place: str | None) -> None:
    findings = legacy_findings(
        provisioner(requirements=[requirement("example.com/size", operator, *values)])
    )

    assert ([f"spec.requirements[0].{place}"] if place else []) == refused(findings)


def test_a_negative_bound_is_refused_as_a_value_and_as_a_bound() -> None:
    findings = legacy_findings(provisioner(requirements=[requirement("size", "Gt", "-1")]))

    assert refused(findings) == ["spec.requirements[0].values", "spec.requirements[0].values[0]"]


@pytest.mark.parametrize(
    ("taint", "place"),
    [
        pytest.param({"key": "example.com/a", "effect": "NoSchedule"}, None, id="key-and-effect"),
        pytest.param({"key": "a", "effect": ""}, None, id="an-empty-effect-means-every-effect"),
        pytest.param({"key": "a"}, None, id="so-does-a-missing-one"),
        pytest.param({"key": "a", "value": "b.c", "effect": "NoExecute"}, None, id="with-a-value"),
        pytest.param({"key": "a b", "effect": "NoSchedule"}, "key", id="bad-key"),
        pytest.param({"effect": "NoSchedule"}, "key", id="no-key"),
        pytest.param({"key": "a", "value": "???", "effect": "NoExecute"}, "value", id="bad-value"),
        pytest.param({"key": "a", "effect": "Never"}, "effect", id="unknown-effect"),
    ],
)
@pytest.mark.parametrize("field", ["taints", "startupTaints"])
def test_taints(field: str, taint: dict[str, str], place: str | None) -> None:
    findings = legacy_findings(provisioner(**{field: [taint]}))

    assert ([f"spec.{field}[0].{place}"] if place else []) == refused(findings)


def test_a_taint_is_unique_by_key_and_effect_over_both_lists() -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    other = {"key": "a", "effect": "NoExecute"}

    findings = legacy_findings(provisioner(taints=[taint, other], startupTaints=[taint]))

    assert refused(findings) == ["spec.startupTaints[0]"]


@pytest.mark.parametrize(
    ("spec", "places"),
    [
        pytest.param({"providerRef": {"name": "a"}}, [], id="providerRef-alone"),
        pytest.param({"provider": INLINE}, [], id="provider-alone"),
        pytest.param({}, ["spec.providerRef"], id="neither"),
        pytest.param({"provider": None}, ["spec.providerRef"], id="null-counts-as-neither"),
        pytest.param(
            {"provider": INLINE, "providerRef": {"name": "a"}}, ["spec.provider"], id="both"
        ),
    ],
)
@pytest.mark.parametrize("cloud", ["aws", "kwok"])
def test_exactly_one_of_provider_and_provider_ref(
    cloud: str, spec: dict[str, Any], places: list[str]
) -> None:
    obj = {**provisioner(), "spec": spec}

    assert places == refused(legacy_findings(obj, provider=cloud))


@pytest.mark.parametrize(
    ("cloud", "places"),
    [
        pytest.param("kwok", [], id="kwok-accepts-it"),
        pytest.param(
            "aws",
            ["spec.provider.subnetSelector", "spec.provider.securityGroupSelector"],
            id="aws-names-both-selectors",
        ),
    ],
)
def test_an_empty_inline_provider(cloud: str, places: list[str]) -> None:
    findings = legacy_findings(provisioner(provider={}), provider=cloud)

    assert places == refused(findings)


def test_the_seed_with_an_empty_inline_provider() -> None:
    (manifest,) = seed("s000-provisioner-default")

    assert refused(legacy_findings(manifest, provider="kwok")) == []
    assert refused(legacy_findings(manifest, provider="aws")) == [
        "spec.provider.subnetSelector",
        "spec.provider.securityGroupSelector",
    ]


@pytest.mark.parametrize(
    ("extra", "places"),
    [
        pytest.param({"instanceProfile": "p", "amiFamily": "Ubuntu"}, [], id="aws-fields"),
        pytest.param({"apiVersion": "extensions.karpenter.sh/v1alpha1", "kind": "AWS"}, [], id="id"),
        pytest.param({"blockDeviceMappings": [{"deviceName": "a", "ebs": {"volumeSize": "9Gi"}}]}, [], id="disks"),
        pytest.param({"subnets": {}}, ["subnets"], id="an-unknown-field"),
        pytest.param({"metadataOptions": {"hops": 1}}, ["metadataOptions.hops"], id="one-below"),
        pytest.param({"tags": ["a"]}, ["tags"], id="a-list-instead-of-a-map"),
        pytest.param({"tags": {"a": 1}}, ["tags.a"], id="a-number-instead-of-text"),
        pytest.param({"subnetSelector": "a"}, ["subnetSelector"], id="text-instead-of-a-map"),
        pytest.param({"userData": "x"}, ["userData"], id="user-data-needs-a-template"),
        pytest.param({"amiSelector": {"a": "b"}}, ["amiSelector"], id="images-need-a-template"),
        pytest.param({"detailedMonitoring": True}, ["detailedMonitoring"], id="monitoring-too"),
        pytest.param({"amiFamily": "Custom"}, ["amiFamily"], id="custom-images-need-a-template"),
        pytest.param({"amiFamily": "Debian"}, ["amiFamily"], id="the-template-rules-apply"),
        pytest.param(
            {"blockDeviceMappings": [{"deviceName": "a", "ebs": {"volumeSize": "big"}}]},
            ["blockDeviceMappings[0].ebs.volumeSize"],
            id="a-wrong-type-is-said-once",
        ),
    ],
)  # fmt: skip
def test_the_inline_provider_is_decoded_strictly_on_aws_only(
    extra: dict[str, Any], places: list[str]
) -> None:
    obj = provisioner(provider={**INLINE, **extra})

    assert [f"spec.provider.{place}" for place in places] == refused(legacy_findings(obj))
    assert refused(legacy_findings(obj, provider="kwok")) == []


@pytest.mark.row("S1-38")
@pytest.mark.parametrize(
    ("spec", "places"),
    [
        pytest.param({}, [], id="3.9-row-1-both-unset"),
        pytest.param({"consolidation": {"enabled": False}}, [], id="3.9-row-1-consolidation-off"),
        pytest.param({"ttlSecondsAfterEmpty": 30}, [], id="3.9-row-2-ttl-alone"),
        pytest.param({"ttlSecondsAfterEmpty": 0}, [], id="3.9-row-2-ttl-zero"),
        pytest.param(
            {"ttlSecondsAfterEmpty": 30, "consolidation": {"enabled": False}},
            [],
            id="3.9-row-2-ttl-with-consolidation-off",
        ),
        pytest.param({"consolidation": {"enabled": True}}, [], id="3.9-row-3-consolidation-alone"),
        pytest.param(
            {"ttlSecondsAfterEmpty": 30, "consolidation": {"enabled": True}},
            ["spec.ttlSecondsAfterEmpty"],
            id="3.9-row-4-both",
        ),
        pytest.param(
            {"ttlSecondsAfterEmpty": 0, "consolidation": {"enabled": True}},
            ["spec.ttlSecondsAfterEmpty"],
            id="3.9-row-4-zero-counts-as-set",
        ),
        pytest.param(
            {"ttlSecondsAfterEmpty": -1}, ["spec.ttlSecondsAfterEmpty"], id="3.9-row-5-negative"
        ),
        pytest.param(
            {"ttlSecondsAfterEmpty": -1, "consolidation": {"enabled": False}},
            ["spec.ttlSecondsAfterEmpty"],
            id="3.9-row-5-negative-with-consolidation-off",
        ),
        pytest.param(
            {"ttlSecondsAfterEmpty": -1, "consolidation": {"enabled": True}},
            ["spec.ttlSecondsAfterEmpty", "spec.ttlSecondsAfterEmpty"],
            id="3.9-row-5-negative-and-both",
        ),
        pytest.param(
            {"ttlSecondsUntilExpired": 2592000, "consolidation": {"enabled": True}},
            [],
            id="expiry-is-independent",
        ),
        pytest.param({"ttlSecondsUntilExpired": 0}, [], id="expiry-at-once"),
        pytest.param(
            {"ttlSecondsUntilExpired": -1}, ["spec.ttlSecondsUntilExpired"], id="negative-expiry"
        ),
    ],
)
def test_emptiness_and_consolidation(spec: dict[str, Any], places: list[str]) -> None:
    assert places == refused(legacy_findings(provisioner(**spec)))


@pytest.mark.row("S1-38", "S2-19")
def test_both_exclusive_settings_are_refused_with_the_reason() -> None:
    manifest = provisioner(ttlSecondsAfterEmpty=30, consolidation={"enabled": True})

    (error,) = legacy_findings(manifest).errors

    assert (
        error.field,
        error.detail,
    ) == ("spec.ttlSecondsAfterEmpty", EMPTINESS_EXCLUDES_CONSOLIDATION)


@pytest.mark.parametrize(
    ("name", "places"),
    [
        pytest.param("s001-provisioner-providerref", [], id="with-providerRef"),
        pytest.param("s001-provisioner-taints", ["spec.providerRef"], id="taints"),
        pytest.param("s001-provisioner-startuptaints", ["spec.providerRef"], id="startup-taints"),
        pytest.param("s001-provisioner-labels", ["spec.providerRef"], id="labels"),
        pytest.param("s001-provisioner-requirements", ["spec.providerRef"], id="requirements"),
        pytest.param("s001-provisioner-kubeletconfiguration", ["spec.providerRef"], id="kubelet"),
        pytest.param("s001-provisioner-weight", ["spec.providerRef"], id="weight"),
        pytest.param("s003-provisioner-default", [], id="with-an-inline-provider"),
    ],
)
def test_the_seed_provisioners(name: str, places: list[str]) -> None:
    (manifest,) = seed(name)

    assert places == refused(legacy_findings(manifest))


def test_the_seed_with_every_field_is_accepted() -> None:
    for manifest in seed("s001-combined"):
        assert rendered(legacy_findings(manifest)) == []


@pytest.mark.parametrize(
    ("weight", "accepted"),
    [
        pytest.param(1, True, id="the-lowest"),
        pytest.param(100, True, id="the-highest"),
        pytest.param(0, False, id="zero"),
        pytest.param(101, False, id="too-high"),
        pytest.param(-1, False, id="negative"),
    ],
)
def test_weight(weight: int, accepted: bool) -> None:
    findings = legacy_findings(provisioner(weight=weight))

    assert ([] if accepted else ["spec.weight"]) == refused(findings)


def kubelet_places(kubelet: dict[str, Any], **spec: Any) -> list[str]:
    findings = legacy_findings(provisioner(kubeletConfiguration=kubelet, **spec))
    return [place.removeprefix("spec.kubeletConfiguration.") for place in refused(findings)]


@pytest.mark.parametrize(
    ("runtime", "family", "accepted"),
    [
        pytest.param("containerd", "AL2", True, id="containerd-on-al2"),
        pytest.param("dockerd", "AL2", True, id="dockerd-on-al2"),
        pytest.param("dockerd", None, True, id="dockerd-on-the-default-family"),
        pytest.param("containerd", "Bottlerocket", True, id="containerd-on-bottlerocket"),
        pytest.param("dockerd", "Bottlerocket", False, id="dockerd-on-bottlerocket"),
        pytest.param("crio", "AL2", False, id="an-unknown-runtime"),
    ],
)
def test_container_runtime(runtime: str, family: str | None, accepted: bool) -> None:
    inline = {**INLINE, **({"amiFamily": family} if family else {})}

    places = kubelet_places({"containerRuntime": runtime}, provider=inline)

    assert ([] if accepted else ["containerRuntime"]) == places


def test_behind_a_provider_ref_either_runtime_may_fit() -> None:
    assert kubelet_places({"containerRuntime": "dockerd"}) == []


@pytest.mark.parametrize("field", ["systemReserved", "kubeReserved"])
@pytest.mark.parametrize(
    ("resource", "amount", "accepted"),
    [
        pytest.param("cpu", "100m", True, id="cpu"),
        pytest.param("cpu", 1, True, id="a-bare-number"),
        pytest.param("pid", "100", True, id="pids"),
        pytest.param("ephemeral-storage", "1Gi", True, id="disk"),
        pytest.param("gpu", "1", False, id="an-unknown-resource"),
        pytest.param("memory", "-1Mi", False, id="a-negative-amount"),
        pytest.param("cpu", -1, False, id="a-negative-number"),
        pytest.param("memory", "lots", False, id="not-a-quantity"),
        pytest.param("memory", "vcpus * 2", False, id="expressions-came-later"),
    ],
)
def test_reserved_resources(field: str, resource: str, amount: object, accepted: bool) -> None:
    places = kubelet_places({field: {resource: amount}})

    assert ([] if accepted else [f"{field}.{resource}"]) == places


@pytest.mark.parametrize("field", ["evictionHard", "evictionSoft"])
@pytest.mark.parametrize(
    ("signal", "threshold", "accepted"),
    [
        pytest.param("memory.available", "5%", True, id="a-percentage"),
        pytest.param("nodefs.inodesFree", "10", True, id="a-quantity"),
        pytest.param("memory.available", "100.5%", False, id="above-100-percent"),
        pytest.param("memory.available", "-5%", False, id="below-0-percent"),
        pytest.param("memory.available", "some", False, id="neither"),
        pytest.param("cpu.available", "5%", False, id="an-unknown-signal"),
    ],
)
def test_eviction_thresholds(field: str, signal: str, threshold: str, accepted: bool) -> None:
    kubelet: dict[str, Any] = {field: {signal: threshold}}
    if field == "evictionSoft":
        kubelet["evictionSoftGracePeriod"] = {signal: "1m"}

    places = kubelet_places(kubelet)

    assert accepted == (places == [])
    assert accepted or places[0] == f"{field}[{signal}]"


@pytest.mark.row("S1-26")
def test_soft_eviction_needs_the_same_keys_in_both_maps() -> None:
    periods = {"memory.available": "1m", "nodefs.available": "90s", "nodefs.inodesFree": "2m"}
    kubelet = {
        "evictionSoft": {"memory.available": "500Mi", **dict.fromkeys(list(periods)[1:], "15%")},
        "evictionSoftGracePeriod": periods,
    }

    assert kubelet_places(kubelet) == []
    for dropped in periods:
        shorter = {signal: periods[signal] for signal in periods if signal != dropped}
        places = kubelet_places({**kubelet, "evictionSoftGracePeriod": shorter})
        assert [f"evictionSoftGracePeriod[{dropped}]"] == places


@pytest.mark.row("S1-26")
@pytest.mark.parametrize(
    ("soft", "periods", "places"),
    [
        pytest.param(["memory.available"], ["memory.available"], [], id="the-same-keys"),
        pytest.param(
            ["memory.available"], [], ["evictionSoftGracePeriod[memory.available]"], id="no-period"
        ),
        pytest.param(
            [], ["memory.available"], ["evictionSoft[memory.available]"], id="no-threshold"
        ),
    ],
)
def test_soft_eviction_pairs(soft: list[str], periods: list[str], places: list[str]) -> None:
    kubelet = {
        "evictionSoft": dict.fromkeys(soft, "5%"),
        "evictionSoftGracePeriod": dict.fromkeys(periods, "1m30s"),
    }

    assert places == kubelet_places(kubelet)


def test_a_grace_period_must_be_a_duration() -> None:
    kubelet = {
        "evictionSoft": {"memory.available": "5%"},
        "evictionSoftGracePeriod": {"memory.available": "soon"},
    }

    assert kubelet_places(kubelet) == ["evictionSoftGracePeriod[memory.available]"]


@pytest.mark.row("S1-28")
@pytest.mark.parametrize(
    ("high", "low", "places"),
    [
        pytest.param(85, 80, [], id="85-80"),
        pytest.param(80, 80, [], id="equal-was-allowed"),
        pytest.param(80, 85, ["imageGCHighThresholdPercent"], id="80-85"),
        pytest.param(101, 80, ["imageGCHighThresholdPercent"], id="above-100"),
        pytest.param(85, -1, ["imageGCLowThresholdPercent"], id="below-0"),
    ],
)
def test_image_garbage_collection(high: int, low: int, places: list[str]) -> None:
    kubelet = {"imageGCHighThresholdPercent": high, "imageGCLowThresholdPercent": low}

    assert places == kubelet_places(kubelet)


@pytest.mark.parametrize("field", ["podsPerCore", "maxPods"])
@pytest.mark.parametrize(
    ("number", "accepted"),
    [pytest.param(0, True, id="zero"), pytest.param(-1, False, id="negative")],
)
def test_pod_counts(field: str, number: int, accepted: bool) -> None:
    assert ([] if accepted else [field]) == kubelet_places({field: number})


def test_the_refusal_of_both_settings_names_what_to_do() -> None:
    spec = {"ttlSecondsAfterEmpty": 30, "consolidation": {"enabled": True}}

    (error,) = legacy_findings(provisioner(**spec)).errors

    assert (error.kind, error.detail) == (ErrorKind.FORBIDDEN, EMPTINESS_EXCLUDES_CONSOLIDATION)


FIELDS = st.sampled_from(
    [
        *("labels", "annotations", "taints", "startupTaints", "requirements", "provider"),
        *("providerRef", "ttlSecondsAfterEmpty", "ttlSecondsUntilExpired", "limits", "weight"),
        *("consolidation", "enabled", "kubeletConfiguration", "containerRuntime", "amiFamily"),
        *("systemReserved", "evictionSoft", "evictionSoftGracePeriod", "maxPods", "key", "values"),
        *("operator", "subnetSelector", "aws-ids", "blockDeviceMappings", "ebs", "volumeSize"),
        *("metadataOptions", "httpPutResponseHopLimit", "launchTemplate", "tags", "effect"),
    ]
)


@settings(deadline=None)
@given(
    st.dictionaries(FIELDS, json_values(FIELDS), max_size=6) | json_values(FIELDS),
    st.sampled_from(["aws", "kwok"]),
)
def test_no_spec_is_odd_enough_to_raise(spec: Any, cloud: str) -> None:
    findings = legacy_findings({**provisioner(), "spec": spec}, provider=cloud)

    assert all(line and "\n" not in line for line in rendered(findings))

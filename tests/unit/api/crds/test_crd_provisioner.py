"""The API server's promise for ``karpenter.sh/v1alpha5`` Provisioner.

The schema judges types, ranges and enumerations. What one field means for another, and which
label keys may be used, is judged by the rules of ``karpenter.admission.legacy.webhook``.
"""

import pytest

from helpers.crd_cases import (
    ABSENT,
    admit,
    case,
    columns,
    refused,
    replaced,
    values_of,
    wrong_fields,
)
from helpers.small_objects import PROVISIONER
from unit.api.crds.cases.requirement_cases import (
    ACCEPTED_QUANTITIES,
    OLD_OPERATORS,
    REFUSED_QUANTITIES,
    requirement,
    taint,
)
from unit.api.crds.crd_walk import crd_version, declared_fields, rule_messages, used_fields

CRD = "provisioners.karpenter.sh"
V1ALPHA5 = crd_version(CRD, "v1alpha5")
KUBELET = "spec.kubeletConfiguration"
SIGNALS = {"memory.available": "5%", "nodefs.available": "10%", "nodefs.inodesFree": "10%"}

ACCEPTED = [
    case("annotations", "spec.annotations", {"example.com/owner": "my-team"}),
    case("labels", "spec.labels", {"billing-team": "my-team"}),
    *(
        case(f"{field}-with-{effect or 'empty'}-effect", f"spec.{field}", [taint(effect=effect)])
        for field in ("taints", "startupTaints")
        for effect in ("NoSchedule", "PreferNoSchedule", "NoExecute", "")
    ),
    *(
        case(
            f"{field}-with-all-fields",
            f"spec.{field}",
            [taint(value="b", timeAdded="2030-01-01T00:00:00Z")],
        )
        for field in ("taints", "startupTaints")
    ),
    case("a-taint-without-effect", "spec.taints", [{"key": "a"}]),
    *(
        case(
            f"operator-{operator}",
            "spec.requirements",
            [requirement(operator, values=["1"])],
        )
        for operator in OLD_OPERATORS
    ),
    case("no-provider-settings", "spec.provider", {}),
    case(
        "provider-settings-of-any-shape",
        "spec.provider",
        {"subnetSelector": {"a": "b"}, "odd": [{"deep": None}]},
    ),
    case(
        "a-reference-with-all-fields",
        "spec.providerRef",
        {
            "apiVersion": "karpenter.k8s.aws/v1alpha1",
            "kind": "AWSNodeTemplate",
            "name": "default",
        },
    ),
    *(
        case(f"{field}-{seconds}", f"spec.{field}", seconds)
        for field in ("ttlSecondsAfterEmpty", "ttlSecondsUntilExpired")
        for seconds in (0, 30, 2592000, 5_000_000_000)
    ),
    *(
        case(f"a-limit-of-{amount}", "spec.limits", {"resources": {"cpu": amount}}, rows=["S2-64"])
        for amount in ACCEPTED_QUANTITIES
    ),
    *(
        case(f"consolidation-{switch}", "spec.consolidation", {"enabled": switch})
        for switch in (True, False)
    ),
    case("weight-1", "spec.weight", 1),
    case("weight-100", "spec.weight", 100),
    case("name-servers", f"{KUBELET}.clusterDNS", ["10.0.1.100"]),
    case("container-runtime", f"{KUBELET}.containerRuntime", "containerd"),
    *(
        case(f"{field}", f"{KUBELET}.{field}", {"cpu": "100m", "memory": "100Mi", "pid": 10})
        for field in ("systemReserved", "kubeReserved")
    ),
    *(case(field, f"{KUBELET}.{field}", SIGNALS) for field in ("evictionHard", "evictionSoft")),
    case(
        "soft-grace-periods",
        f"{KUBELET}.evictionSoftGracePeriod",
        dict.fromkeys(SIGNALS, "1m30s"),
    ),
    case("a-grace-period-for-evicted-pods", f"{KUBELET}.evictionMaxPodGracePeriod", 60),
    *(
        case(f"{field}-{percent}", f"{KUBELET}.{field}", percent)
        for field in ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent")
        for percent in (0, 85, 100)
    ),
    case("no-cpu-quota", f"{KUBELET}.cpuCFSQuota", False),
    *(
        case(f"{field}-{count}", f"{KUBELET}.{field}", count)
        for field in ("podsPerCore", "maxPods")
        for count in (0, 20)
    ),
]

REFUSED = [
    refused("a-label-that-is-true", "spec.labels", {"team": True}, at="spec.labels.team"),
    refused("an-annotation-list", "spec.annotations", []),
    *(
        refused(words, f"spec.{field}", [value], at=f"spec.{field}[0].{wrong}")
        for field in ("taints", "startupTaints")
        for words, value, wrong in (
            (f"{field}-with-misspelt-effect", taint(effect="NoSchedul"), "effect"),
            (f"{field}-without-key", {"effect": "NoSchedule"}, "key"),
            (f"{field}-added-yesterday", taint(timeAdded="yesterday"), "timeAdded"),
        )
    ),
    *(
        refused(
            f"operator-{operator}",
            "spec.requirements",
            [requirement(operator, values=["1"])],
            at="spec.requirements[0].operator",
        )
        for operator in ("Gte", "Lte", "in", "")
    ),
    refused(
        "a-requirement-without-key",
        "spec.requirements",
        [{"operator": "Exists"}],
        at="spec.requirements[0].key",
    ),
    refused(
        "a-requirement-without-operator",
        "spec.requirements",
        [{"key": "a"}],
        at="spec.requirements[0].operator",
    ),
    refused(
        "values-that-are-numbers",
        "spec.requirements",
        [requirement("In", values=[4])],
        at="spec.requirements[0].values[0]",
    ),
    refused("provider-settings-as-text", "spec.provider", "aws"),
    refused("a-reference-without-name", "spec.providerRef.name", ABSENT),
    refused("an-empty-reference", "spec.providerRef.name", ""),
    *(
        refused(f"{field}-{seconds}", f"spec.{field}", seconds)
        for field in ("ttlSecondsAfterEmpty", "ttlSecondsUntilExpired")
        for seconds in (-1, 1.5, "30s", 2**63)
    ),
    *(
        refused(
            f"a-limit-of-{amount or 'nothing'}",
            "spec.limits.resources",
            {"cpu": amount},
            at="spec.limits.resources.cpu",
        )
        for amount in REFUSED_QUANTITIES
    ),
    refused("consolidation-yes", "spec.consolidation.enabled", "yes"),
    *(refused(f"weight-{weight}", "spec.weight", weight) for weight in (0, 101, "10")),
    *(
        refused(
            f"{field}-of-a-word", f"{KUBELET}.{field}", {"cpu": "x"}, at=f"{KUBELET}.{field}.cpu"
        )
        for field in ("systemReserved", "kubeReserved")
    ),
    refused(
        "a-threshold-that-is-a-number",
        f"{KUBELET}.evictionHard",
        {"memory.available": 5},
        at=f"{KUBELET}.evictionHard[memory.available]",
    ),
    *(
        refused(f"{field}-{percent}", f"{KUBELET}.{field}", percent)
        for field in ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent")
        for percent in (-1, 101)
    ),
    *(
        refused(f"{field}-{count}", f"{KUBELET}.{field}", count)
        for field in ("podsPerCore", "maxPods")
        for count in (-1, 2**31)
    ),
    refused("a-grace-period-beyond-32-bits", f"{KUBELET}.evictionMaxPodGracePeriod", 2**31),
]


@pytest.mark.row("S0-22")
@pytest.mark.parametrize(("field", "value"), ACCEPTED)
def test_accepted(field: str, value: object) -> None:
    admitted = admit(replaced(PROVISIONER, field, value))

    assert ([str(error) for error in admitted.errors], admitted.pruned) == ([], [])


@pytest.mark.parametrize(("field", "value", "at"), REFUSED)
def test_refused(field: str, value: object, at: str) -> None:
    assert {at} == wrong_fields(replaced(PROVISIONER, field, value))


def test_nothing_is_defaulted_by_the_schema() -> None:
    assert admit(PROVISIONER).object == PROVISIONER


def test_provider_settings_are_kept_as_they_are() -> None:
    provider = {"apiVersion": "extensions.karpenter.sh/v1alpha1", "tags": {"a": "b"}, "odd": [1]}

    admitted = admit(replaced(PROVISIONER, "spec.provider", provider))

    assert (provider, []) == (admitted.object["spec"]["provider"], admitted.pruned)


def test_unknown_fields_are_dropped() -> None:
    assert admit(replaced(PROVISIONER, "spec.colour", "red")).pruned == [("spec", "colour")]


def test_a_full_status_is_kept() -> None:
    status = {
        "resources": {"cpu": "8"},
        "lastScaleTime": "2030-01-01T00:00:00Z",
        "conditions": [{"type": "Active", "status": "True", "severity": ""}],
    }

    admitted = admit({**PROVISIONER, "status": status})

    assert ([], [], status) == (admitted.errors, admitted.pruned, admitted.object["status"])


@pytest.mark.parametrize(
    ("field", "value", "at"),
    [
        refused("resources-that-are-no-quantities", "resources", {"cpu": "x"}, at="resources.cpu"),
        refused("a-last-scaling-in-words", "lastScaleTime", "yesterday"),
    ],
)
def test_a_status_with_wrong_values_is_refused(field: str, value: object, at: str) -> None:
    assert {f"status.{at}"} == wrong_fields({**PROVISIONER, "status": {field: value}})


def test_users_are_pointed_to_node_pools() -> None:
    assert (V1ALPHA5["deprecated"], "NodePool" in V1ALPHA5["deprecationWarning"]) == (True, True)


def test_columns_of_kubectl_get() -> None:
    assert columns(CRD, "v1alpha5") == ["TEMPLATE", "(WEIGHT)"]


def test_relations_between_fields_are_left_to_the_legacy_rules() -> None:
    assert set() == rule_messages(V1ALPHA5)


@pytest.mark.row("S0-22")
def test_every_field_has_an_accepting_case() -> None:
    used = {
        path
        for field, value in values_of(ACCEPTED)
        for path in used_fields(replaced(PROVISIONER, field, value)["spec"])
    }

    assert set() == declared_fields(V1ALPHA5) - used

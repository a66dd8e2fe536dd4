"""What an EC2NodeClass may say to the kubelet, and under which reason it is refused."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.admission.kubelets.fields import KUBELET_CONFIGURATION
from karpenter.admission.kubelets.kubelet import (
    EVICTION_SIGNALS,
    MANAGED_FIELDS,
    KubeletReason,
    kubelet_problems,
)
from karpenter.model.durations import nanoseconds as go_nanoseconds
from unit.admission.rule_cases import json_values

PATH = ("spec", "kubelet")


def problems(
    kubelet: object, *, family: str = "AL2023", expressions: bool = False
) -> list[tuple[KubeletReason, str]]:
    """The reason and the place below ``spec.kubelet`` of every problem."""
    found = kubelet_problems(kubelet, PATH, family=family, expressions=expressions)
    return [
        (problem.reason, problem.error.field.removeprefix("spec.kubelet").lstrip("."))
        for problem in found
    ]


def invalid(*places: str) -> list[tuple[KubeletReason, str]]:
    return [(KubeletReason.INVALID, place) for place in places]


EVERY_MANAGED_FIELD: dict[str, Any] = {
    "clusterDNS": ["10.0.1.100"],
    "maxPods": 20,
    "podsPerCore": 2,
    "systemReserved": {"cpu": "100m", "memory": "100Mi", "ephemeral-storage": "1Gi"},
    "kubeReserved": {"cpu": "200m", "memory": "100Mi", "pid": "1000"},
    "evictionHard": {"memory.available": "5%", "nodefs.available": "10%"},
    "evictionSoft": {"memory.available": "500Mi", "nodefs.inodesFree": "15%"},
    "evictionSoftGracePeriod": {"memory.available": "1m", "nodefs.inodesFree": "1m30s"},
    "evictionMaxPodGracePeriod": 60,
    "imageGCHighThresholdPercent": 85,
    "imageGCLowThresholdPercent": 80,
    "cpuCFSQuota": True,
}


def test_the_example_holds_every_managed_field() -> None:
    assert set(EVERY_MANAGED_FIELD) == MANAGED_FIELDS


@pytest.mark.parametrize("family", ["AL2", "AL2023", "Windows2022", "Custom"])
def test_every_managed_field_is_accepted(family: str) -> None:
    assert problems(EVERY_MANAGED_FIELD, family=family) == []


@pytest.mark.parametrize(
    "kubelet",
    [
        pytest.param(None, id="nothing"),
        pytest.param({}, id="an-empty-object"),
        pytest.param({"registryPullQPS": 10}, id="an-unmanaged-number"),
        pytest.param({"maxPods": 110.0}, id="a-whole-number-written-as-a-fraction"),
        pytest.param({"cpuManagerPolicy": "static"}, id="an-unmanaged-string"),
        pytest.param({"featureGates": {"NodeSwap": True}}, id="a-map-of-switches"),
        pytest.param({"shutdownGracePeriod": "1m30s"}, id="a-duration"),
        pytest.param({"logging": {"flushFrequency": 5000000000}}, id="a-duration-in-nanoseconds"),
        pytest.param({"logging": {"flushFrequency": "5s"}}, id="the-same-duration-as-text"),
        pytest.param({"logging": {"vmodule": [{"verbosity": 3}]}}, id="a-list-of-objects"),
        pytest.param({"memoryThrottlingFactor": 0.9}, id="a-fraction"),
        pytest.param({"podPidsLimit": -1}, id="a-negative-number-where-it-has-a-meaning"),
        pytest.param({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}]}, id="numa"),
        pytest.param({"staticPodURLHeader": {"X": ["a", "b"]}}, id="a-map-of-lists"),
        pytest.param({"authentication": {"webhook": {"cacheTTL": "2m"}}}, id="nested-objects"),
        pytest.param({"maxPods": None}, id="null-is-as-good-as-absent"),
    ],
)
def test_al2023_accepts(kubelet: object) -> None:
    assert problems(kubelet) == []


@pytest.mark.parametrize(
    ("kubelet", "place"),
    [
        pytest.param("text", "", id="text-instead-of-an-object"),
        pytest.param({"fooBar": 1}, "fooBar", id="an-unknown-field"),
        pytest.param({"MaxPods": 1}, "MaxPods", id="the-wrong-case"),
        pytest.param({"authentication": {"basic": {}}}, "authentication.basic", id="below-a-known"),
        pytest.param({"maxPods": True}, "maxPods", id="a-boolean-instead-of-a-number"),
        pytest.param({"maxPods": 1.5}, "maxPods", id="a-fraction-instead-of-an-integer"),
        pytest.param({"maxPods": 2**31}, "maxPods", id="more-than-32-bits"),
        pytest.param({"podPidsLimit": 2**63}, "podPidsLimit", id="more-than-64-bits"),
        pytest.param({"logging": {"verbosity": -1}}, "logging.verbosity", id="a-negative-level"),
        pytest.param({"cpuCFSQuota": "true"}, "cpuCFSQuota", id="text-instead-of-a-boolean"),
        pytest.param({"cpuManagerPolicy": 1}, "cpuManagerPolicy", id="a-number-instead-of-text"),
        pytest.param({"clusterDNS": "10.0.0.1"}, "clusterDNS", id="text-instead-of-a-list"),
        pytest.param({"clusterDNS": [10]}, "clusterDNS[0]", id="a-number-inside-a-list"),
        pytest.param({"featureGates": ["A"]}, "featureGates", id="a-list-instead-of-a-map"),
        pytest.param({"featureGates": {"A": 1}}, "featureGates.A", id="a-number-inside-a-map"),
        pytest.param({"kubeReserved": {"cpu": 1}}, "kubeReserved.cpu", id="an-unquoted-quantity"),
        pytest.param({"memoryThrottlingFactor": "1"}, "memoryThrottlingFactor", id="not-a-number"),
        pytest.param({"shutdownGracePeriod": "1x"}, "shutdownGracePeriod", id="not-a-duration"),
        pytest.param({"shutdownGracePeriod": 30}, "shutdownGracePeriod", id="an-unquoted-duration"),
        pytest.param(
            {"systemPartition": {"memoryLimit": "lots"}},
            "systemPartition.memoryLimit",
            id="not-a-quantity",
        ),
        pytest.param(
            {"registerWithTaints": [{"key": "a", "effect": "NoSchedule"}]},
            "registerWithTaints",
            id="taints-belong-to-the-pool",
        ),
        pytest.param({"podsPerCore": -1}, "podsPerCore", id="negative-pods-per-core"),
        pytest.param({"maxPods": -1}, "maxPods", id="negative-max-pods"),
        pytest.param(
            {"evictionMaxPodGracePeriod": -1},
            "evictionMaxPodGracePeriod",
            id="negative-pod-grace-period",
        ),
    ],
)
def test_a_wrong_shape_or_range_is_invalid(kubelet: object, place: str) -> None:
    assert invalid(place) == problems(kubelet)


def test_an_unknown_field_is_answered_with_the_nearest_known_one() -> None:
    (problem,) = kubelet_problems({"maxPod": 1}, PATH, family="AL2023")

    assert problem.error.detail == "unknown field; did you mean maxPods?"


@pytest.mark.parametrize("field", ["evictionHard", "evictionMinimumReclaim"])
@pytest.mark.parametrize(
    ("threshold", "accepted"),
    [
        pytest.param("0%", True, id="no-percent"),
        pytest.param("100%", True, id="all-percent"),
        pytest.param("7.5%", True, id="a-fraction-of-percent"),
        pytest.param("500Mi", True, id="a-quantity"),
        pytest.param("0", True, id="zero"),
        pytest.param("101%", False, id="more-than-all"),
        pytest.param("-1%", False, id="a-negative-percentage"),
        pytest.param("-1Gi", False, id="a-negative-quantity"),
        pytest.param("much", False, id="no-number"),
        pytest.param("%", False, id="a-bare-percent-sign"),
        pytest.param("", False, id="empty"),
    ],
)
def test_eviction_thresholds(field: str, threshold: str, accepted: bool) -> None:
    expected = [] if accepted else invalid(f"{field}[memory.available]")

    assert expected == problems({field: {"memory.available": threshold}})


@pytest.mark.parametrize("signal", EVICTION_SIGNALS)
def test_every_signal_is_known_to_every_eviction_map(signal: str) -> None:
    kubelet = {
        "evictionHard": {signal: "5%"},
        "evictionMinimumReclaim": {signal: "1Gi"},
        "evictionSoft": {signal: "10%"},
        "evictionSoftGracePeriod": {signal: "1m"},
    }

    assert problems(kubelet) == []


def test_an_unknown_signal_is_refused_in_every_eviction_map() -> None:
    maps = ("evictionHard", "evictionSoft", "evictionMinimumReclaim", "evictionSoftGracePeriod")
    kubelet = {field: {"foo": "1m"} for field in maps}

    assert invalid(*(f"{field}.foo" for field in maps)) == problems(kubelet)


@pytest.mark.parametrize(
    ("period", "accepted"),
    [
        pytest.param("1m30s", True, id="minutes-and-seconds"),
        pytest.param("0", True, id="zero"),
        pytest.param("1x", False, id="an-unknown-unit"),
        pytest.param("30", False, id="no-unit"),
        pytest.param("-1m", False, id="negative"),
        pytest.param("", False, id="empty"),
    ],
)
def test_soft_eviction_grace_periods(period: str, accepted: bool) -> None:
    kubelet = {
        "evictionSoft": {"memory.available": "5%"},
        "evictionSoftGracePeriod": {"memory.available": period},
    }

    expected = [] if accepted else invalid("evictionSoftGracePeriod[memory.available]")
    assert expected == problems(kubelet)


@pytest.mark.parametrize(
    ("kubelet", "place"),
    [
        pytest.param(
            {"evictionSoft": {"memory.available": "5%"}},
            "evictionSoftGracePeriod[memory.available]",
            id="a-threshold-without-a-grace-period",
        ),
        pytest.param(
            {"evictionSoftGracePeriod": {"memory.available": "1m"}},
            "evictionSoft[memory.available]",
            id="a-grace-period-without-a-threshold",
        ),
        pytest.param(
            {
                "evictionSoft": {"memory.available": "5%", "pid.available": "5%"},
                "evictionSoftGracePeriod": {"memory.available": "1m"},
            },
            "evictionSoftGracePeriod[pid.available]",
            id="one-signal-left-out",
        ),
    ],
)
def test_soft_thresholds_and_grace_periods_come_in_pairs(
    kubelet: dict[str, Any], place: str
) -> None:
    assert invalid(place) == problems(kubelet)


@pytest.mark.parametrize("field", ["kubeReserved", "systemReserved"])
@pytest.mark.parametrize(
    ("resource", "amount", "accepted"),
    [
        pytest.param("cpu", "100m", True, id="cpu"),
        pytest.param("pid", "0", True, id="no-pids"),
        pytest.param("nvidia.com/gpu", "1", False, id="a-resource-that-cannot-be-reserved"),
        pytest.param("memory", "-1Gi", False, id="less-than-nothing"),
    ],
)
def test_reserved_resources(field: str, resource: str, amount: str, accepted: bool) -> None:
    place = f"{field}[{resource}]" if "/" in resource else f"{field}.{resource}"

    assert ([] if accepted else invalid(place)) == problems({field: {resource: amount}})


@pytest.mark.parametrize(
    ("high", "low", "places"),
    [
        pytest.param(85, 80, [], id="high-above-low"),
        pytest.param(100, 0, [], id="the-widest-range"),
        pytest.param(80, 80, ["imageGCHighThresholdPercent"], id="equal"),
        pytest.param(80, 85, ["imageGCHighThresholdPercent"], id="high-below-low"),
        pytest.param(101, 80, ["imageGCHighThresholdPercent"], id="more-than-100"),
        pytest.param(85, -1, ["imageGCLowThresholdPercent"], id="less-than-0"),
        pytest.param(None, 99, [], id="low-alone"),
        pytest.param(1, None, [], id="high-alone"),
    ],
)
def test_image_garbage_collection(high: int | None, low: int | None, places: list[str]) -> None:
    kubelet = {"imageGCHighThresholdPercent": high, "imageGCLowThresholdPercent": low}

    assert invalid(*places) == problems(kubelet)


@pytest.mark.parametrize(
    ("kubelet", "family", "places"),
    [
        pytest.param({"registryPullQPS": 10}, "AL2", ["registryPullQPS"], id="unmanaged-on-al2"),
        pytest.param({"registryPullQPS": 10}, "Bottlerocket", ["registryPullQPS"], id="and-here"),
        pytest.param(
            {"registryPullQPS": 10}, "Windows2019", ["registryPullQPS"], id="and-here-too"
        ),
        pytest.param({"registryPullQPS": 10}, "AL2023", [], id="unmanaged-on-al2023"),
        pytest.param({"registryPullQPS": 10}, "Custom", [], id="unmanaged-on-custom"),
        pytest.param({"clusterDNS": ["a", "b"]}, "AL2", ["clusterDNS"], id="two-addresses-on-al2"),
        pytest.param({"clusterDNS": ["a", "b"]}, "AL2023", [], id="two-addresses-on-al2023"),
        pytest.param({"podsPerCore": 2}, "Bottlerocket", ["podsPerCore"], id="on-bottlerocket"),
        pytest.param({"podsPerCore": 2}, "Windows2022", [], id="pods-per-core-on-windows"),
    ],
)
def test_what_a_family_cannot_pass_on_is_unsupported(
    kubelet: dict[str, Any], family: str, places: list[str]
) -> None:
    expected = [(KubeletReason.UNSUPPORTED, place) for place in places]

    assert expected == problems(kubelet, family=family)


@pytest.mark.parametrize(
    ("kubelet", "place"),
    [
        pytest.param({"maxPods": "vcpus * 8"}, "maxPods", id="max-pods"),
        pytest.param({"maxPods": "110"}, "maxPods", id="even-a-number-in-quotes"),
        pytest.param({"kubeReserved": {"cpu": "vcpus * 30"}}, "kubeReserved.cpu", id="reserved"),
    ],
)
def test_expressions_need_the_feature_gate(kubelet: dict[str, Any], place: str) -> None:
    assert [(KubeletReason.EXPRESSIONS_DISABLED, place)] == problems(kubelet)


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        pytest.param("max(60, vcpus * 30)", True, id="the-two-extra-functions"),
        pytest.param("min(max_pods, default_enis * ips_per_eni)", True, id="the-network-variables"),
        pytest.param("memory_mib > 1024 ? 20 : 10", True, id="a-condition"),
        pytest.param("instance_type.startsWith('m5') ? 20 : 10", True, id="a-method"),
        pytest.param("[1, 2].exists(n, n == vcpus) ? 1 : 2", True, id="a-macro-binds-its-own-name"),
        pytest.param("int(memory_mib / 1024)", True, id="a-conversion"),
        pytest.param("vcpus +", False, id="a-syntax-error"),
        pytest.param("cores * 2", False, id="an-unknown-variable"),
        pytest.param("round(vcpus)", False, id="an-unknown-function"),
        pytest.param("", False, id="empty"),
    ],
)
def test_expressions_are_read_with_the_feature_gate(text: str, accepted: bool) -> None:
    found = problems({"maxPods": text, "kubeReserved": {"cpu": text}}, expressions=True)

    reason = KubeletReason.EXPRESSION_INVALID
    expected = [] if accepted else [(reason, "maxPods"), (reason, "kubeReserved.cpu")]
    assert expected == found


def test_a_reserved_value_that_reads_as_a_quantity_is_no_expression() -> None:
    kubelet = {"systemReserved": {"cpu": "3"}, "kubeReserved": {"memory": "1e3"}}

    assert problems(kubelet) == []


def test_problems_stand_in_the_order_the_controller_asks() -> None:
    kubelet = {"registryPullQPS": 10, "maxPods": "vcpus", "fooBar": 1}

    reasons = [reason for reason, _ in problems(kubelet, family="AL2")]

    assert reasons == [
        KubeletReason.INVALID,
        KubeletReason.EXPRESSIONS_DISABLED,
        KubeletReason.UNSUPPORTED,
    ]


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        pytest.param("0", 0, id="bare-zero"),
        pytest.param("1ns", 1, id="nanoseconds"),
        pytest.param("2us", 2_000, id="microseconds"),
        pytest.param("2µs", 2_000, id="microseconds-with-the-sign"),
        pytest.param("300ms", 300_000_000, id="milliseconds"),
        pytest.param("1.5h", 5_400_000_000_000, id="a-fraction-of-hours"),
        pytest.param(".5s", 500_000_000, id="no-digit-before-the-point"),
        pytest.param("5.s", 5_000_000_000, id="no-digit-after-the-point"),
        pytest.param("-1m", -60_000_000_000, id="negative"),
        pytest.param("+1m", 60_000_000_000, id="a-plus-sign"),
        pytest.param("1h2m3s", 3_723_000_000_000, id="several-units"),
        pytest.param("2562047h", 2562047 * 3_600_000_000_000, id="about-the-largest"),
        pytest.param("2562048h", None, id="more-than-64-bits"),
        pytest.param("1d", None, id="days-are-unknown"),
        pytest.param("1", None, id="no-unit"),
        pytest.param(" 1s", None, id="a-blank"),
        pytest.param("٣s", None, id="digits-of-another-script"),
        pytest.param("1" * 5000 + "s", None, id="absurdly-long"),
    ],
)
def test_go_duration(text: str, nanoseconds: int | None) -> None:
    assert nanoseconds == go_nanoseconds(text)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(sorted(KUBELET_CONFIGURATION.fields)) | st.text(max_size=5),
        json_values(st.sampled_from([*EVICTION_SIGNALS, "cpu", "webhook", "verbosity"])),
        max_size=6,
    ),
    st.sampled_from(["AL2", "AL2023", "Bottlerocket", "Windows2022", "Custom"]),
    st.booleans(),
)
def test_no_settings_are_odd_enough_to_raise(
    kubelet: dict[str, Any], family: str, expressions: bool
) -> None:
    found = kubelet_problems(kubelet, PATH, family=family, expressions=expressions)

    assert all(problem.error.path[:2] == PATH for problem in found)

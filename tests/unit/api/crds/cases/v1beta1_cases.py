"""Changes to small valid objects of ``karpenter.sh/v1beta1`` that are accepted or refused.

The cases for kubelets are values of ``kubelet``, which NodePool and NodeClaim share.
"""

from helpers.crd_cases import ABSENT, case, refused
from unit.api.crds.cases.nodepool_cases import REFUSED_LIMITS, REFUSED_TEMPLATES
from unit.api.crds.cases.requirement_cases import (
    ACCEPTED_QUANTITIES,
    FULL_TAINT,
    requirement,
)

LABELS = "spec.template.metadata.labels"
NODES = "spec.template.spec"
DISRUPTION = "spec.disruption"
BUDGETS = f"{DISRUPTION}.budgets"
SIGNALS = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
THRESHOLDS = ("5%", "0%", "99.95%", "100%", "100.00%", "500Mi", "1Gi", "1.5Gi", "1000")
NOT_THRESHOLDS = ("101%", "5.125%", "-5%", "100.5%", "%", "", "lots", 5)

ACCEPTED = [
    case("a-label", LABELS, {"billing-team": "my-team"}),
    case("100-labels", LABELS, {f"label-{i}": "x" for i in range(100)}),
    case("any-annotation", "spec.template.metadata.annotations", {"a b": "c d"}),
    case("a-class-by-name-alone", f"{NODES}.nodeClassRef", {"name": "default"}),
    case("30-requirements", f"{NODES}.requirements", [requirement()] * 30),
    case(
        "requirements-with-all-fields",
        f"{NODES}.requirements",
        [requirement("In", values=["a", "b"], minValues=1)],
    ),
    case("a-full-taint", f"{NODES}.taints", [FULL_TAINT]),
    case("a-full-startup-taint", f"{NODES}.startupTaints", [FULL_TAINT]),
    case("empty-resources", f"{NODES}.resources", {}),
    *(
        case(f"expireAfter-{text}", f"{DISRUPTION}.expireAfter", text)
        for text in ("720h", "1h30m", "0s", "Never", "5mfoo", "500ms", "xNever")
    ),
    *(
        case(
            f"WhenEmpty-after-{text}",
            DISRUPTION,
            {"consolidationPolicy": "WhenEmpty", "consolidateAfter": text},
        )
        for text in ("30s", "Never", "5mfoo", "xNever")
    ),
    case("WhenUnderutilized", DISRUPTION, {"consolidationPolicy": "WhenUnderutilized"}),
    case(
        "WhenUnderutilized-after-Never",
        DISRUPTION,
        {"consolidationPolicy": "WhenUnderutilized", "consolidateAfter": "Never"},
    ),
    case("the-default-policy-after-Never", DISRUPTION, {"consolidateAfter": "Never"}),
    case("50-budgets", BUDGETS, [{"nodes": "1"}] * 50),
    case("a-full-budget", BUDGETS, [{"nodes": "20%", "schedule": "0 9 * * *", "duration": "8h"}]),
    *(
        case(f"a-limit-of-{amount}", "spec.limits", {"cpu": amount})
        for amount in ACCEPTED_QUANTITIES
    ),
    case("weight-1", "spec.weight", 1),
    case("weight-100", "spec.weight", 100),
]

REFUSED = [
    *REFUSED_TEMPLATES,
    refused("no-node-class", f"{NODES}.nodeClassRef", ABSENT),
    refused("a-class-without-name", f"{NODES}.nodeClassRef.name", ABSENT),
    refused("an-empty-class-name", f"{NODES}.nodeClassRef.name", ""),
    refused("no-list-of-requirements", f"{NODES}.requirements", ABSENT),
    refused("31-requirements", f"{NODES}.requirements", [requirement()] * 31),
    refused("resources", f"{NODES}.resources", {"requests": {"cpu": 1}}),
    refused("empty-requests", f"{NODES}.resources", {"requests": {}}),
    *(
        refused(f"expireAfter-{text or 'empty'}", f"{DISRUPTION}.expireAfter", text)
        for text in ("1d", "1.5h", "-5m", "", "30", "never", 30)
    ),
    refused(
        "consolidateAfter-of-a-day",
        DISRUPTION,
        {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1d"},
        at=f"{DISRUPTION}.consolidateAfter",
    ),
    refused(
        "WhenUnderutilized-after-30s",
        DISRUPTION,
        {"consolidationPolicy": "WhenUnderutilized", "consolidateAfter": "30s"},
        at=f"{DISRUPTION}.consolidateAfter",
        rows=["S2-66"],
    ),
    refused(
        "the-default-policy-after-30s",
        DISRUPTION,
        {"consolidateAfter": "30s"},
        at=f"{DISRUPTION}.consolidateAfter",
        rows=["S2-66"],
    ),
    refused(
        "WhenEmpty-without-consolidateAfter",
        DISRUPTION,
        {"consolidationPolicy": "WhenEmpty"},
        at=f"{DISRUPTION}.consolidateAfter",
    ),
    *(
        refused(f"policy-{policy or 'empty'}", f"{DISRUPTION}.consolidationPolicy", policy)
        for policy in ("WhenEmptyOrUnderutilized", "Balanced", "")
    ),
    refused("51-budgets", BUDGETS, [{"nodes": "1"}] * 51),
    refused("a-budget-of-1000%", BUDGETS, [{"nodes": "1000%"}], at=f"{BUDGETS}[0].nodes"),
    refused(
        "a-schedule-alone", BUDGETS, [{"nodes": "1", "schedule": "@daily"}], at=f"{BUDGETS}[0]"
    ),
    refused(
        "a-schedule-of-four-fields",
        BUDGETS,
        [{"nodes": "1", "schedule": "0 9 * *", "duration": "8h"}],
        at=f"{BUDGETS}[0].schedule",
    ),
    refused(
        "a-duration-in-seconds",
        BUDGETS,
        [{"nodes": "1", "schedule": "@daily", "duration": "30s"}],
        at=f"{BUDGETS}[0].duration",
    ),
    *REFUSED_LIMITS,
    refused("weight-0", "spec.weight", 0),
    refused("weight-101", "spec.weight", 101),
]

ACCEPTED_KUBELETS = [
    case("nothing", {}),
    case("name-servers", {"clusterDNS": ["10.0.1.100"]}),
    case("pod-counts", {"maxPods": 0, "podsPerCore": 0}),
    *(
        case(f"{field}-of-{amount}", {field: {"cpu": amount, "memory": "100Mi"}})
        for field in ("systemReserved", "kubeReserved")
        for amount in (0, 1, "100m", "1.5")
    ),
    case(
        "reserves-of-every-kind",
        {"kubeReserved": {"cpu": 1, "memory": 1, "ephemeral-storage": 1, "pid": 1}},
    ),
    case("hard-thresholds", {"evictionHard": dict.fromkeys(SIGNALS, "5%")}),
    *(
        case(f"a-hard-threshold-of-{text}", {"evictionHard": {"memory.available": text}})
        for text in THRESHOLDS
    ),
    case(
        "soft-thresholds",
        {
            "evictionSoft": dict.fromkeys(SIGNALS, "500Mi"),
            "evictionSoftGracePeriod": dict.fromkeys(SIGNALS, "1m30s"),
        },
    ),
    case("empty-soft-thresholds", {"evictionSoft": {}, "evictionSoftGracePeriod": {}}),
    case("a-grace-period-for-evicted-pods", {"evictionMaxPodGracePeriod": 60}),
    case(
        "image-thresholds",
        {"imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80},
        rows=["S1-28"],
    ),
    case("image-threshold-0", {"imageGCLowThresholdPercent": 0}),
    case("image-threshold-100", {"imageGCHighThresholdPercent": 100}),
    case("no-cpu-quota", {"cpuCFSQuota": False}),
]

REFUSED_KUBELETS = [
    *(
        case(f"{field}-{count}", {field: count}, field)
        for field in ("maxPods", "podsPerCore")
        for count in (-1, 2**31)
    ),
    case(
        "a-grace-period-beyond-32-bits",
        {"evictionMaxPodGracePeriod": 2**31},
        "evictionMaxPodGracePeriod",
    ),
    *(
        case(f"{field}-of-{amount}", {field: {"cpu": amount}}, f"{field}.cpu")
        for field in ("systemReserved", "kubeReserved")
        for amount in (-1, "-100m", "abc")
    ),
    *(
        case(f"{field}-of-an-unknown-resource", {field: {"nvidia.com/gpu": 1}}, field)
        for field in ("systemReserved", "kubeReserved")
    ),
    case("an-unknown-signal-in-evictionHard", {"evictionHard": {"memory": "5%"}}, "evictionHard"),
    case(
        "an-unknown-signal-in-evictionSoft",
        {"evictionSoft": {"memory": "5%"}, "evictionSoftGracePeriod": {"memory": "1m"}},
        "evictionSoft evictionSoftGracePeriod",
    ),
    *(
        case(
            f"a-hard-threshold-of-{text or 'nothing'}",
            {"evictionHard": {"pid.available": text}},
            "evictionHard[pid.available]",
        )
        for text in NOT_THRESHOLDS
    ),
    *(
        case(
            f"a-soft-threshold-of-{text or 'nothing'}",
            {
                "evictionSoft": {"pid.available": text},
                "evictionSoftGracePeriod": {"pid.available": "1m"},
            },
            "evictionSoft[pid.available]",
        )
        for text in NOT_THRESHOLDS
    ),
    *(
        case(
            f"a-grace-period-of-{text or 'nothing'}",
            {
                "evictionSoft": {"pid.available": "5%"},
                "evictionSoftGracePeriod": {"pid.available": text},
            },
            "evictionSoftGracePeriod[pid.available]",
        )
        for text in ("-1m", "1d", "soon", "", "30", 30)
    ),
    case(
        "no-grace-period",
        {"evictionSoft": {"pid.available": "5%"}},
        "evictionSoftGracePeriod",
        rows=["S1-26"],
    ),
    case(
        "no-grace-period-for-one-signal",
        {
            "evictionSoft": {"pid.available": "5%", "memory.available": "5%"},
            "evictionSoftGracePeriod": {"pid.available": "1m"},
        },
        "evictionSoftGracePeriod",
        rows=["S1-26"],
    ),
    case(
        "a-grace-period-for-nothing",
        {"evictionSoftGracePeriod": {"pid.available": "1m"}},
        "evictionSoft",
        rows=["S1-26"],
    ),
    *(
        case(f"{field}-{percent}", {field: percent}, field)
        for field in ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent")
        for percent in (-1, 101)
    ),
    *(
        case(
            f"image-thresholds-{high}-{low}",
            {"imageGCHighThresholdPercent": high, "imageGCLowThresholdPercent": low},
            "imageGCHighThresholdPercent",
            rows=["S1-28"],
        )
        for high, low in ((80, 85), (80, 80))
    ),
]

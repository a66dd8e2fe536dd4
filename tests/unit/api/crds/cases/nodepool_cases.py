"""Changes to a small valid NodePool of version v1 that the API server accepts or refuses."""

from typing import Any

from helpers.crd_cases import ABSENT, case, refused
from unit.api.crds.cases.requirement_cases import (
    ACCEPTED_DURATIONS,
    ACCEPTED_QUANTITIES,
    REFUSED_DURATIONS,
    REFUSED_QUANTITIES,
    requirement,
)

LABELS = "spec.template.metadata.labels"
NODES = "spec.template.spec"
CLASS = f"{NODES}.nodeClassRef"
DISRUPTION = "spec.disruption"
BUDGETS = f"{DISRUPTION}.budgets"

SCHEDULES = (
    "@annually",
    "@yearly",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
    "0 9 * * 1-5",
    "*/5  0-3\t1,15 * mon-fri",
    "TZ=UTC 0 9 * * *",
    "99 99 99 99 99",
)


def budget(**fields: Any) -> list[dict[str, Any]]:
    return [{"nodes": "1", **fields}]


ACCEPTED = [
    case("a-label", LABELS, {"billing-team": "my-team"}),
    case("an-empty-label-value", LABELS, {"team": ""}),
    case("a-label-value-of-63-characters", LABELS, {"team": "x" * 63}),
    case("100-labels", LABELS, {f"label-{i}": "x" for i in range(100)}),
    case("any-annotation", "spec.template.metadata.annotations", {"a b": "ünï/ /code"}),
    case("no-requirements", f"{NODES}.requirements", []),
    case("100-requirements", f"{NODES}.requirements", [requirement()] * 100),
    case(
        "requirements-with-all-fields",
        f"{NODES}.requirements",
        [requirement("In", values=["a", "b"], minValues=1)],
    ),
    case(
        "taints-with-all-fields",
        f"{NODES}.taints",
        [
            {
                "key": "a",
                "value": "b",
                "effect": "NoExecute",
                "timeAdded": "2030-01-01T00:00:00Z",
            }
        ],
    ),
    case(
        "startup-taints-with-all-fields",
        f"{NODES}.startupTaints",
        [
            {
                "key": "a",
                "value": "b",
                "effect": "NoExecute",
                "timeAdded": "2030-01-01T00:00:00.123456Z",
            }
        ],
    ),
    *(
        case(f"{field}-{text}", f"{NODES}.{field}", text)
        for field in ("expireAfter", "terminationGracePeriod")
        for text in ACCEPTED_DURATIONS
    ),
    case("nodes-that-never-expire", f"{NODES}.expireAfter", "Never"),
    case("an-empty-disruption", DISRUPTION, {}),
    *(
        case(f"consolidateAfter-{text}", f"{DISRUPTION}.consolidateAfter", text)
        for text in (*ACCEPTED_DURATIONS, "Never")
    ),
    *(
        case(
            f"{policy}-after-30s",
            DISRUPTION,
            {"consolidationPolicy": policy, "consolidateAfter": "30s"},
            rows=["S2-66"],
        )
        for policy in ("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced")
    ),
    case("no-budgets", BUDGETS, []),
    case("50-budgets", BUDGETS, budget() * 50),
    *(
        case(f"a-budget-of-{nodes}", BUDGETS, [{"nodes": nodes}])
        for nodes in ("0", "5", "1000", "0%", "5%", "05%", "99%", "100%")
    ),
    *(
        case(f"a-budget-for-{reason}", BUDGETS, budget(reasons=[reason]))
        for reason in ("Underutilized", "Empty", "Drifted")
    ),
    case("V15-S01 a budget for Unhealthy", BUDGETS, budget(reasons=["Unhealthy"])),
    case(
        "a-budget-for-every-reason",
        BUDGETS,
        budget(reasons=["Unhealthy", "Drifted", "Empty", "Underutilized"]),
    ),
    case("a-budget-for-no-reason", BUDGETS, budget(reasons=[])),
    *(
        case(f"a-budget-from-{text}", BUDGETS, budget(schedule=text, duration="8h"))
        for text in SCHEDULES
    ),
    *(
        case(f"a-budget-for-{text}", BUDGETS, budget(schedule="@daily", duration=text))
        for text in ("8h", "90m", "1h30m", "8h0s", "90m0s", "1h30m0s", "0m")
    ),
    *(
        case(f"a-limit-of-{amount}", "spec.limits", {"cpu": amount})
        for amount in ACCEPTED_QUANTITIES
    ),
    case("limits-of-any-resource", "spec.limits", {"nvidia.com/gpu": 8, "nodes": 10}),
    case("weight-1", "spec.weight", 1),
    case("weight-100", "spec.weight", 100),
    case("no-replicas", "spec.replicas", 0),
    case("many-replicas", "spec.replicas", 3_000_000_000),
]

REFUSED_LIMITS = [
    *(
        refused(
            f"a-limit-of-{amount or 'nothing'}",
            "spec.limits",
            {"cpu": amount},
            at="spec.limits.cpu",
        )
        for amount in REFUSED_QUANTITIES
    ),
    refused(
        "limits-nested-as-in-a-Provisioner",
        "spec.limits",
        {"resources": {"cpu": "1000"}},
        at="spec.limits.resources",
        rows=["S2-64"],
    ),
]

# In every version
REFUSED_TEMPLATES = [
    refused("no-spec", "spec", ABSENT),
    refused("no-template", "spec.template", ABSENT),
    refused("no-node-spec", NODES, ABSENT),
    refused("101-labels", LABELS, {f"label-{i}": "x" for i in range(101)}),
    refused("a-label-value-with-a-blank", LABELS, {"team": "hi there"}, at=f"{LABELS}.team"),
    refused("a-label-value-of-64-characters", LABELS, {"team": "x" * 64}, at=f"{LABELS}.team"),
]

REFUSED = [
    *REFUSED_TEMPLATES,
    refused("a-label-value-that-ends-badly", LABELS, {"team": "x-"}, at=f"{LABELS}.team"),
    refused("a-label-that-is-true", LABELS, {"team": True}, at=f"{LABELS}.team"),
    refused(
        "an-annotation-that-is-true",
        "spec.template.metadata.annotations",
        {"a": True},
        at="spec.template.metadata.annotations.a",
    ),
    refused("no-node-class", CLASS, ABSENT),
    *(
        refused(f"a-node-class-{case}-{field}", f"{CLASS}.{field}", value)
        for field in ("group", "kind", "name")
        for case, value in (("without", ABSENT), ("with-empty", ""))
    ),
    refused("a-node-class-group-with-version", f"{CLASS}.group", "karpenter.k8s.aws/v1"),
    refused("no-list-of-requirements", f"{NODES}.requirements", ABSENT),
    refused("101-requirements", f"{NODES}.requirements", [requirement()] * 101),
    *(
        refused(f"{field}-{text or 'empty'}", f"{NODES}.{field}", text)
        for field in ("expireAfter", "terminationGracePeriod")
        for text in REFUSED_DURATIONS
    ),
    refused("an-endless-grace-period", f"{NODES}.terminationGracePeriod", "Never"),
    *(
        refused(f"consolidateAfter-{text or 'empty'}", f"{DISRUPTION}.consolidateAfter", text)
        for text in REFUSED_DURATIONS
    ),
    *(
        refused(f"policy-{policy or 'empty'}", f"{DISRUPTION}.consolidationPolicy", policy)
        for policy in ("WhenUnderutilized", "whenempty", "")
    ),
    refused("51-budgets", BUDGETS, budget() * 51),
    *(
        refused(
            f"a-budget-of-{nodes or 'nothing'}",
            BUDGETS,
            [{"nodes": nodes}],
            at=f"{BUDGETS}[0].nodes",
        )
        for nodes in ("-10", "1000%", "101%", "10.5%", "10 %", "%", "", "ten", 5)
    ),
    refused(
        "V15-S01 a reason twice",
        BUDGETS,
        budget(reasons=["Unhealthy", "Unhealthy"]),
        at=f"{BUDGETS}[0].reasons[1]",
    ),
    refused(
        "V15-S01 a reason that budgets cannot stop",
        BUDGETS,
        budget(reasons=["Expired"]),
        at=f"{BUDGETS}[0].reasons[0]",
    ),
    refused("a-schedule-alone", BUDGETS, budget(schedule="@daily"), at=f"{BUDGETS}[0]"),
    refused("a-duration-alone", BUDGETS, budget(duration="8h"), at=f"{BUDGETS}[0]"),
    *(
        refused(
            f"a-schedule-of-{text or 'nothing'}",
            BUDGETS,
            budget(schedule=text, duration="8h"),
            at=f"{BUDGETS}[0].schedule",
        )
        for text in ("", "daily", "@dailyx", "@every 5m", "0 9 * *", "    ")
    ),
    *(
        refused(
            f"a-duration-of-{text or 'nothing'}",
            BUDGETS,
            budget(schedule="@daily", duration=text),
            at=f"{BUDGETS}[0].duration",
        )
        for text in ("30s", "8h30s", "1h30m15s", "30m1h", "1.5h", "-1h", "1d", "", "Never")
    ),
    *REFUSED_LIMITS,
    *(refused(f"weight-{weight}", "spec.weight", weight) for weight in (0, 101, -1, 1.5, "10")),
    *(refused(f"replicas-{count}", "spec.replicas", count) for count in (-1, 1.5, "3")),
]

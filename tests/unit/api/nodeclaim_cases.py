"""Changes to a small valid NodeClaim of version v1 that the API server accepts or refuses."""

from unit.api.crd_cases import ABSENT, case, refused
from unit.api.requirement_cases import (
    ACCEPTED_DURATIONS,
    ACCEPTED_QUANTITIES,
    REFUSED_DURATIONS,
    REFUSED_QUANTITIES,
    requirement,
)

FULL_TAINT = {
    "key": "a",
    "value": "b",
    "effect": "NoExecute",
    "timeAdded": "2030-01-01T00:00:00Z",
}
CLASS = "spec.nodeClassRef"
REQUESTS = "spec.resources.requests"

ACCEPTED = [
    case("100-requirements", "spec.requirements", [requirement()] * 100),
    case(
        "requirements-with-all-fields",
        "spec.requirements",
        [requirement("In", values=["a", "b"], minValues=1)],
    ),
    case("a-full-taint", "spec.taints", [FULL_TAINT]),
    case("a-full-startup-taint", "spec.startupTaints", [FULL_TAINT]),
    *(
        case(f"{field}-{text}", f"spec.{field}", text)
        for field in ("expireAfter", "terminationGracePeriod")
        for text in ACCEPTED_DURATIONS
    ),
    case("a-node-that-never-expires", "spec.expireAfter", "Never"),
    *(
        case(f"a-request-of-{amount}", REQUESTS, {"cpu": amount, "example.com/device": amount})
        for amount in ACCEPTED_QUANTITIES
    ),
]

REFUSED = [
    refused("no-spec", "spec", ABSENT),
    refused("no-node-class", CLASS, ABSENT),
    *(
        refused(f"a-node-class-{words}-{field}", f"{CLASS}.{field}", value)
        for field in ("group", "kind", "name")
        for words, value in (("without", ABSENT), ("with-empty", ""))
    ),
    refused("a-node-class-group-with-version", f"{CLASS}.group", "karpenter.k8s.aws/v1"),
    refused("no-list-of-requirements", "spec.requirements", ABSENT),
    refused("101-requirements", "spec.requirements", [requirement()] * 101),
    *(
        refused(f"{field}-{text or 'empty'}", f"spec.{field}", text)
        for field in ("expireAfter", "terminationGracePeriod")
        for text in REFUSED_DURATIONS
    ),
    refused("an-endless-grace-period", "spec.terminationGracePeriod", "Never"),
    *(
        refused(
            f"a-request-of-{amount or 'nothing'}", REQUESTS, {"cpu": amount}, at=f"{REQUESTS}.cpu"
        )
        for amount in REFUSED_QUANTITIES
    ),
]

"""Changes to small valid NodeClaims that the API server accepts or refuses, by version."""

from helpers.crd_cases import ABSENT, case, refused
from unit.api.crds.cases.requirement_cases import (
    ACCEPTED_DURATIONS,
    ACCEPTED_QUANTITIES,
    FULL_TAINT,
    REFUSED_DURATIONS,
    REFUSED_QUANTITIES,
    requirement,
)

CLASS = "spec.nodeClassRef"
REQUESTS = "spec.resources.requests"

_ACCEPTED_IN_BOTH = [
    case(
        "requirements-with-all-fields",
        "spec.requirements",
        [requirement("In", values=["a", "b"], minValues=1)],
    ),
    case("a-full-taint", "spec.taints", [FULL_TAINT]),
    case("a-full-startup-taint", "spec.startupTaints", [FULL_TAINT]),
]
ACCEPTED_V1 = [
    case("100-requirements", "spec.requirements", [requirement()] * 100),
    *_ACCEPTED_IN_BOTH,
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

REFUSED_V1 = [
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

ACCEPTED_V1BETA1 = [
    case("the-smallest-claim", "spec.requirements", []),
    case("a-class-by-name-alone", "spec.nodeClassRef", {"name": "default"}),
    case("30-requirements", "spec.requirements", [requirement()] * 30),
    *_ACCEPTED_IN_BOTH,
    *(case(f"a-request-of-{amount}", REQUESTS, {"cpu": amount}) for amount in ACCEPTED_QUANTITIES),
]

REFUSED_V1BETA1 = [
    refused("no-spec", "spec", ABSENT),
    refused("no-node-class", "spec.nodeClassRef", ABSENT),
    refused("a-class-without-name", "spec.nodeClassRef.name", ABSENT),
    refused("an-empty-class-name", "spec.nodeClassRef.name", ""),
    refused("no-list-of-requirements", "spec.requirements", ABSENT),
    refused("31-requirements", "spec.requirements", [requirement()] * 31),
    *(
        refused(
            f"a-request-of-{amount or 'nothing'}", REQUESTS, {"cpu": amount}, at=f"{REQUESTS}.cpu"
        )
        for amount in REFUSED_QUANTITIES
    ),
]

ACCEPTED = {"v1": ACCEPTED_V1, "v1beta1": ACCEPTED_V1BETA1}
REFUSED = {"v1": REFUSED_V1, "v1beta1": REFUSED_V1BETA1}

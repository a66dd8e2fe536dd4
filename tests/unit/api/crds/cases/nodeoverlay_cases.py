"""Changes to a small valid NodeOverlay that the API server accepts or refuses."""

from helpers.crd_cases import ABSENT, case, refused
from unit.api.crds.cases.requirement_cases import (
    ACCEPTED_QUANTITIES,
    REFUSED_QUANTITIES,
    requirement,
)

CAPACITY = "spec.capacity"

ACCEPTED = [
    case("100-requirements", "spec.requirements", [requirement()] * 100),
    case("requirements-with-all-fields", "spec.requirements", [requirement("In", values=["a"])]),
    *(case(f"price-{text}", "spec.price", text) for text in ("0", "1", "0.42", "10.0", "007")),
    *(
        case(f"adjustment-{text}", "spec.priceAdjustment", text)
        for text in (
            *("+0.5", "-0.5", "+.2", "-.2", "+1", "-12.75"),
            *("+0%", "+10%", "+250%", "+12.5%", "+.5%"),
            *("-0%", "-10%", "-99%", "-99.9%", "-5.25%", "-100%"),
        )
    ),
    *(
        case(f"capacity-of-{amount}", CAPACITY, {"example.com/device": amount})
        for amount in ACCEPTED_QUANTITIES
    ),
    case("capacity-the-controllers-refuse-on-aws", CAPACITY, {"vpc.amazonaws.com/efa": 1}),
    case("capacity-of-gpus", CAPACITY, {"nvidia.com/gpu": 1}),
    case("weight-1", "spec.weight", 1),
    case("weight-10000", "spec.weight", 10000),
]

REFUSED = [
    refused("no-spec", "spec", ABSENT),
    refused("no-list-of-requirements", "spec.requirements", ABSENT),
    refused("101-requirements", "spec.requirements", [requirement()] * 101),
    *(
        refused(f"price-{text or 'empty'}", "spec.price", text)
        for text in ("-1", "+1", "abc", "", "1.", "1e3", "10%", "1,5", 1, 0.42)
    ),
    *(
        refused(f"adjustment-{text or 'empty'}", "spec.priceAdjustment", text)
        for text in (
            *("0.5", "10%", "", "+", "-", "%", "+%", "abc", "+1e3", "+1.", "+-1"),
            *("-100.5%", "-101%", "-150%", "-.5%", "+10 %", -5),
        )
    ),
    *(
        refused(f"capacity-of-{resource}", CAPACITY, {resource: 1})
        for resource in ("cpu", "memory", "ephemeral-storage", "pods")
    ),
    refused("capacity-of-cpu-among-others", CAPACITY, {"example.com/device": 1, "cpu": 1}),
    *(
        refused(
            f"capacity-of-{amount or 'nothing'}",
            CAPACITY,
            {"gpu": amount},
            at=f"{CAPACITY}.gpu",
        )
        for amount in REFUSED_QUANTITIES
    ),
    *(refused(f"weight-{weight}", "spec.weight", weight) for weight in (0, 10001, -1, "10")),
]

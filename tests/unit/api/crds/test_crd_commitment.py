"""The API server's promise for ``cost.karpenter.sh/v1alpha1`` Commitment."""

from typing import Any

import pytest

from helpers.crd_cases import ABSENT, admit, case, columns, refused, replaced, wrong_fields

CRD = "commitments.cost.karpenter.sh"
FAMILY = {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m6i"]}
PLAN: dict[str, Any] = {
    "apiVersion": "cost.karpenter.sh/v1alpha1",
    "kind": "Commitment",
    "metadata": {"name": "m6i-plan"},
    "spec": {
        "type": "SavingsPlan",
        "requirements": [FAMILY],
        "hourly": "12.50",
        "discount": "28%",
    },
}
RESERVED: dict[str, Any] = {
    **PLAN,
    "spec": {"type": "ReservedInstance", "requirements": [FAMILY], "instances": 3},
}


def on(key: str, **more: object) -> list[dict[str, Any]]:
    return [{"key": key, "operator": "In", "values": ["a"], **more}]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(case(f"hourly-{text}", "spec.hourly", text) for text in ("1", "0.01", "12.50", "007")),
        *(
            case(f"discount-{t}", "spec.discount", t)
            for t in ("0%", "28%", "99%", "12.5%", "99.0%")
        ),
        *(case(f"share-{t}", "spec.share", t) for t in ("1%", "0.5%", "50%", "100%", "100.0%")),
        case("a-date", "spec.expires", "2027-05-01T00:00:00Z"),
        case("every-machine", "spec.requirements", ABSENT),
        case("a-zone", "spec.requirements", on("topology.kubernetes.io/zone")),
        case("a-type", "spec.requirements", on("node.kubernetes.io/instance-type")),
    ],
)
def test_accepted(field: str, value: object) -> None:
    admitted = admit(replaced(PLAN, field, value))

    assert ([str(error) for error in admitted.errors], admitted.pruned) == ([], [])


@pytest.mark.case("OPT-52")
@pytest.mark.parametrize(
    ("field", "value", "at"),
    [
        refused("no-quantity", "spec.hourly", ABSENT, at="spec"),
        refused("two-quantities", "spec.instances", 3, at="spec"),
        refused("units-beside-dollars", "spec.units", "64", at="spec"),
        refused("a-type-of-another-quantity", "spec.type", "ReservedInstance"),
        refused("an-unknown-type", "spec.type", "Coupon"),
        refused("neither-discount-nor-rates", "spec.discount", ABSENT),
        refused("discount-and-rates", "spec.rates", {"m6i.large": "0.07"}),
        *(
            refused(f"hourly-{text or 'empty'}", "spec.hourly", text)
            for text in ("0", "0.00", "-1", "", "1e3", "much", "1,5", "12.")
        ),
        *(
            refused(f"discount-{text or 'empty'}", "spec.discount", text)
            for text in ("100%", "99.5%", "-1%", "28", "", "a%")
        ),
        *(
            refused(f"share-{text or 'empty'}", "spec.share", text)
            for text in ("0%", "0.0%", "100.1%", "101%", "-5%", "50", "", "half")
        ),
        refused("a-date-that-is-none", "spec.expires", "next year"),
        refused(
            "a-capacity-type",
            "spec.requirements",
            on("karpenter.sh/capacity-type"),
            at="spec.requirements[0].key",
        ),
        refused(
            "a-pool",
            "spec.requirements",
            on("karpenter.sh/nodepool"),
            at="spec.requirements[0].key",
        ),
        refused(
            "a-hostname",
            "spec.requirements",
            on("kubernetes.io/hostname"),
            at="spec.requirements[0].key",
        ),
    ],
)
def test_refused(field: str, value: object, at: str) -> None:
    assert {at} == wrong_fields(replaced(PLAN, field, value))


@pytest.mark.parametrize(
    ("field", "value", "at"),
    [
        refused("no-machines", "spec.instances", 0),
        refused("half-a-machine", "spec.instances", 0.5),
        refused("a-discount", "spec.discount", "10%", at="spec.type"),
        refused("rates", "spec.rates", {"m6i.large": "0.07"}, at="spec.type"),
        refused("units-too", "spec.units", "64", at="spec"),
        refused("dollars", "spec.hourly", "1", at="spec"),
    ],
)
def test_reserved_instances_refused(field: str, value: object, at: str) -> None:
    assert {at} == wrong_fields(replaced(RESERVED, field, value))


def test_units_in_place_of_machines() -> None:
    units = replaced(replaced(RESERVED, "spec.instances", ABSENT), "spec.units", "64")

    assert [] == admit(units).errors
    assert {"spec.units"} == wrong_fields(replaced(units, "spec.units", "0"))


def test_rates_in_place_of_a_discount() -> None:
    rates = replaced(replaced(PLAN, "spec.discount", ABSENT), "spec.rates", {"m6i.large": "0.07"})

    assert [] == admit(rates).errors
    assert {"spec.rates.a"} == wrong_fields(replaced(rates, "spec.rates", {"a": "0"}))


def test_columns_of_kubectl_get() -> None:
    assert ["TYPE", "USED", "LEFT", "READY", "AGE", "(SHARE)", "(EXPIRES)"] == columns(
        CRD, "v1alpha1"
    )

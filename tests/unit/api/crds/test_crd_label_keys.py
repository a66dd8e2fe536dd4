"""Each class of label keys is let through or refused by the schemas in each place, as the API says.

This is the table of ``label_key_cases`` against every kind that takes labels or requirements.
"""

from typing import Any

import pytest

from helpers.crd_cases import replaced, wrong_fields
from helpers.small_objects import CLAIM, OLD_CLAIM, OLD_POOL, OVERLAY, POOL
from karpenter.api.node_classes import ec2_labels, kwok_labels
from karpenter.model import labels
from unit.api.crds.cases.label_key_cases import (
    CLAIM_REQUIREMENT,
    EVERYWHERE,
    LABELS,
    OLD_CLAIM_REQUIREMENT,
    OLD_POOL_LABEL,
    OLD_POOL_REQUIREMENT,
    OVERLAY_REQUIREMENT,
    PLACES_OF_KEY,
    POOL_LABEL,
    POOL_REQUIREMENT,
    WELL_KNOWN,
)

FIELD_OF_PLACE: dict[str, tuple[dict[str, Any], str]] = {
    POOL_LABEL: (POOL, "spec.template.metadata.labels"),
    POOL_REQUIREMENT: (POOL, "spec.template.spec.requirements"),
    CLAIM_REQUIREMENT: (CLAIM, "spec.requirements"),
    OVERLAY_REQUIREMENT: (OVERLAY, "spec.requirements"),
    OLD_POOL_LABEL: (OLD_POOL, "spec.template.metadata.labels"),
    OLD_POOL_REQUIREMENT: (OLD_POOL, "spec.template.spec.requirements"),
    OLD_CLAIM_REQUIREMENT: (OLD_CLAIM, "spec.requirements"),
}


def wrong_fields_with_key(place: str, key: str) -> set[str]:
    obj, field = FIELD_OF_PLACE[place]
    value = {key: "x"} if place in LABELS else [{"key": key, "operator": "Exists"}]
    return wrong_fields(replaced(obj, field, value))


@pytest.mark.parametrize("place", sorted(EVERYWHERE))
@pytest.mark.parametrize("key", PLACES_OF_KEY)
def test_a_key_is_let_through_where_the_api_allows_it(key: str, place: str) -> None:
    field = FIELD_OF_PLACE[place][1]
    refusal = {field} if place in LABELS else {f"{field}[0].key"}
    expected = set() if place in PLACES_OF_KEY[key] else refusal

    assert expected == wrong_fields_with_key(place, key)


@pytest.mark.row("S0-46")
@pytest.mark.parametrize("key", WELL_KNOWN)
def test_a_well_known_label_can_be_required_of_a_pool(key: str) -> None:
    assert set() == wrong_fields_with_key(POOL_REQUIREMENT, key)


@pytest.mark.row("S0-46")
def test_the_table_holds_every_key_the_providers_know() -> None:
    known = (labels.CORE_WELL_KNOWN | ec2_labels.WELL_KNOWN) | (
        labels.CORE_WELL_KNOWN | kwok_labels.WELL_KNOWN
    )

    assert known - {labels.NODEPOOL} == set(WELL_KNOWN)

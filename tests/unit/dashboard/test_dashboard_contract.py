"""What the server and the page say to each other is written down once, with a sample of it."""

import msgspec
import pytest

from helpers import dashboard_sample
from karpenter.dashboard import contract


def test_the_sample_view_is_one_by_the_contract() -> None:
    view = msgspec.json.decode(dashboard_sample.PATH.read_bytes(), type=contract.View)

    assert dashboard_sample.sample() == view


@pytest.mark.parametrize("table", ["nodes", "pods"])
def test_every_column_has_a_value_for_every_row(table: str) -> None:
    columns = getattr(dashboard_sample.sample(), table)

    lengths = {len(getattr(columns, name)) for name in columns.__struct_fields__}

    assert 1 == len(lengths)


@pytest.mark.parametrize("flags", [contract.NODE_FLAGS, contract.POD_FLAGS])
def test_every_flag_is_a_bit_of_its_own(flags: dict[str, int]) -> None:
    assert [1 << place for place in range(len(flags))] == list(flags.values())


def test_an_unknown_field_of_a_what_if_is_refused_by_its_name() -> None:
    with pytest.raises(msgspec.ValidationError, match="drian"):
        msgspec.json.decode(b'{"drian": ["node-1"]}', type=contract.WhatIfRequest)

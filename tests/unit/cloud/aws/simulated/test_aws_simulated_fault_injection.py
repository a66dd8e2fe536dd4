"""What somebody wants to go wrong with a simulated AWS is understood, or refused in a sentence."""

import re
from pathlib import Path

import pytest

from karpenter.cloud.aws.simulated.fault_injection import (
    ACTIONS,
    InjectedFault,
    InjectedFaultError,
    Kind,
    Market,
    enact,
    listed,
    lost_zones,
    read,
    written,
)
from karpenter.cloud.aws.simulated.faults import Faults

MARKET = Market("us-west-2", ("us-west-2a", "us-west-2b", "us-west-2c"))
POLICIES = Path(__file__).parents[5] / "docs" / "aws" / "policies"
# Rights without a call of their own
_NO_CALLS = {"PassRole", "PassedToService", "TagInstanceProfile", "CreateAction"}


@pytest.mark.parametrize(
    ("kind", "what", "understood"),
    [
        ("sold-out", "m5.*/us-west-2a/spot", "m5.*/us-west-2a/spot"),
        ("sold-out", "*/*/on-demand", "*/*/on-demand"),
        ("lost-zone", "us-west-2b", "us-west-2b"),
        ("throttled", "CreateFleet", "CreateFleet"),
        ("throttled", "ec2:createfleet", "CreateFleet"),
        ("denied", "iam:CreateInstanceProfile", "CreateInstanceProfile"),
    ],
)
def test_what_is_meant_is_understood(kind: Kind, what: str, understood: str) -> None:
    assert InjectedFault(kind, understood) == MARKET.check(kind, what)


@pytest.mark.parametrize(
    ("kind", "what", "told"),
    [
        (
            "sold-out",
            "m5.lrge/*/spot",
            "there is no instance type m5.lrge in us-west-2; did you mean m5.large?",
        ),
        (
            "sold-out",
            "m5.large/us-west-2q/*",
            "there is no zone us-west-2q in this account; did you mean us-west-2c?",
        ),
        ("sold-out", "*/*/sopt", "there is no capacity type sopt; did you mean spot?"),
        (
            "sold-out",
            "spot",
            "spot names no offerings; write type/zone/capacity-type, such as '*/*/spot'",
        ),
        (
            "sold-out",
            "us-west-2a",
            (
                "us-west-2a names no offerings; write type/zone/capacity-type, such as"
                " '*/us-west-2a/*'"
            ),
        ),
        (
            "sold-out",
            "m5.large",
            "m5.large names no offerings; write type/zone/capacity-type, such as 'm5.large/*/*'",
        ),
        (
            "sold-out",
            "m5.large//spot",
            (
                "m5.large//spot names no offerings; write type/zone/capacity-type, such as"
                " 'm5.*/*/spot'"
            ),
        ),
        (
            "lost-zone",
            "moon",
            "there is no zone moon in this account; there are us-west-2a, us-west-2b, us-west-2c",
        ),
        (
            "denied",
            "RunInstance",
            (
                "there is no action RunInstance that the controllers ask for; did you mean"
                " RunInstances?"
            ),
        ),
        (
            "throttled",
            "ec2:CreateVpc\x1b[0m",
            (
                "there is no action CreateVpc\\x1b[0m that the controllers ask for; there are "
                "AddRoleToInstanceProfile, CreateFleet, CreateInstanceProfile, CreateLaunchTemplate,"
                " CreateTags, DeleteInstanceProfile, DeleteLaunchTemplate, DeleteMessage, …"
            ),
        ),
    ],
)
def test_what_does_not_exist_is_refused(kind: Kind, what: str, told: str) -> None:
    with pytest.raises(InjectedFaultError) as caught:
        MARKET.check(kind, what)

    assert told == str(caught.value)


def test_the_actions_are_those_of_the_policies() -> None:
    texts = [file.read_text() for file in POLICIES.glob("*.json")]
    services = "|".join(ACTIONS)
    granted = {
        (service, action)
        for text in texts
        for service, action in re.findall(rf'"({services}):([A-Z]\w+)"', text)
        if action not in _NO_CALLS and not action.startswith("Resource")
    }

    assert granted == {(service, each) for service, held in ACTIONS.items() for each in held}


def test_a_config_map_is_read_as_it_is_written() -> None:
    troubles = [
        InjectedFault("sold-out", "*/*/spot"),
        InjectedFault("sold-out", "m5.*/*/*"),
        InjectedFault("lost-zone", "us-west-2a"),
        InjectedFault("denied", "RunInstances"),
    ]

    data = written(troubles)
    held = {key: text for key, text in data.items() if text is not None}

    assert data["throttled"] is None
    assert "*/*/spot, m5.*/*/*" == data["sold-out"]
    assert troubles == listed(held)
    assert (troubles, []) == read(held, MARKET)


def test_what_is_right_in_a_config_map_counts_and_the_rest_is_told() -> None:
    data = {"lost-zone": "us-west-2a\nmoon", "lost-zones": "us-west-2b"}

    found, problems = read(data, MARKET)

    assert [InjectedFault("lost-zone", "us-west-2a")] == found
    assert [
        (
            "lost-zone: there is no zone moon in this account; there are us-west-2a, us-west-2b,"
            " us-west-2c"
        ),
        "lost-zones: there is no kind of fault lost-zones; did you mean lost-zone?",
    ] == problems


def test_exactly_what_is_wanted_goes_wrong() -> None:
    faults = Faults()
    enact(
        [InjectedFault("throttled", "GetParameter"), InjectedFault("sold-out", "*/*/spot")], faults
    )
    troubles = [
        InjectedFault("lost-zone", "us-west-2a"),
        InjectedFault("denied", "CreateFleet"),
        InjectedFault("throttled", "CreateFleet"),
    ]

    enact(troubles, faults)

    assert ["CreateFleet"] == list(faults.refused)
    assert "UnauthorizedOperation" == faults.refused["CreateFleet"].code
    assert faults.why_sold_out("m5.large", "us-west-2a", "on-demand") is not None
    assert faults.why_sold_out("m5.large", "us-west-2b", "spot") is None
    assert {"us-west-2a"} == lost_zones(troubles)

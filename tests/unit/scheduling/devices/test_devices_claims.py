"""Which ResourceClaims a pod has, and which pods cannot be told apart by theirs."""

import msgspec
import pytest

from helpers.builders import pod
from karpenter.api.devices import ResourceClaim
from karpenter.api.pods import Pod, PodResourceClaim, PodResourceClaimStatus
from karpenter.scheduling.devices.claims import ClaimDirectory
from unit.scheduling.devices.device_objects import claim, exactly, held, user


def generated(name: str, made: str | None = None, *, known: bool = True) -> Pod:
    """A pod with a claim made from a template, as far as its status knows."""
    entry = PodResourceClaim(name="gpu", resource_claim_template_name="t")
    waiting = pod(name, resource_claims=[entry])
    if not known:
        return waiting
    entries = (PodResourceClaimStatus(name="gpu", resource_claim_name=made),)
    status = msgspec.structs.replace(waiting.status, resource_claim_statuses=entries)
    return msgspec.structs.replace(waiting, status=status)


@pytest.mark.parametrize(
    ("wanted", "claims", "expected"),
    [
        pytest.param(user("p", "c"), [claim("c")], ["c own"], id="named in the spec"),
        pytest.param(generated("p", "p-x"), [claim("p-x")], ["p-x own"], id="named in the status"),
        pytest.param(generated("p"), [claim("c")], [], id="no claim was needed"),
        pytest.param(generated("p", known=False), [claim("c")], [], id="no claim is made yet"),
        pytest.param(user("p", "c"), [], ["c missing"], id="the claim does not exist"),
        pytest.param(
            user("p", "c", namespace="other"), [claim("c")], ["c missing"], id="another namespace"
        ),
        pytest.param(user("p", "c"), [claim("c", holds=[])], ["c served"], id="it has devices"),
        pytest.param(user("p", "c", "c"), [claim("c")], ["c own"], id="named twice"),
        pytest.param(user("p", "d", "c"), [claim("c"), claim("d")], ["d own", "c own"], id="two"),
    ],
)
def test_the_claims_of_a_pod(wanted: Pod, claims: list[ResourceClaim], expected: list[str]) -> None:
    directory = ClaimDirectory(claims, [wanted])

    found = directory.of(wanted)

    assert expected == [f"{each.key.partition('/')[2]} {each.standing.value}" for each in found]


def test_a_claim_that_two_pods_use_is_shared() -> None:
    first, second = user("p", "c"), user("q", "c")

    directory = ClaimDirectory([claim("c")], [first, second])

    assert ["shared"] == [each.standing.value for each in directory.of(first)]


@pytest.mark.parametrize(
    ("used_by", "expected"),
    [
        pytest.param(["leaving"], "own", id="only a departing pod holds it"),
        pytest.param(["leaving", "staying"], "served", id="a pod that stays holds it too"),
        pytest.param([], "served", id="nobody holds it yet"),
    ],
)
def test_claims_of_departing_pods(used_by: list[str], expected: str) -> None:
    leaving = user("leaving", "c", node_name="n")

    directory = ClaimDirectory([claim("c", holds=[held()], used_by=used_by)], [leaving])

    assert [expected] == [each.standing.value for each in directory.of(leaving)]
    assert (expected == "served") == bool(list(directory.served()))


@pytest.mark.parametrize(
    ("pods", "alike"),
    [
        pytest.param(["own", "own-too"], True, id="own claims that ask for the same"),
        pytest.param(["own", "more"], False, id="own claims that ask for different things"),
        pytest.param(["own", "gone"], False, id="one claim does not exist"),
        pytest.param(["gone", "gone-too"], False, id="different claims do not exist"),
        pytest.param(["served", "served-too"], False, id="claims with devices of their own"),
    ],
)
def test_which_pods_are_alike(pods: list[str], alike: bool) -> None:
    claims = [
        claim("own"),
        claim("own-too"),
        claim("more", exactly(count=2)),
        claim("served", holds=[held("a")]),
        claim("served-too", holds=[held("b")]),
    ]
    waiting = [generated(name, name) for name in pods]

    directory = ClaimDirectory(claims, waiting)

    assert alike == (directory.identity(waiting[0]) == directory.identity(waiting[1]))

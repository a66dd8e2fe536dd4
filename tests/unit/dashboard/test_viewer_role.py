"""The role of a companion: it may read the kinds that the dashboard follows, and nothing else."""

import pytest

from helpers.rights import INSTALL, documents, granted
from karpenter.api.meta import group_of
from karpenter.dashboard.sources import LEASE, READ
from karpenter.kube.kinds import resource_of

VIEWER = INSTALL / "rbac-viewer.yaml"


@pytest.mark.case("DASH-37")
def test_the_role_grants_reading_what_the_dashboard_follows_and_nothing_else() -> None:
    followed = {(group_of(kind), resource_of(kind).plural) for kind in READ}

    assert granted(VIEWER) == {
        (group, plural, verb) for group, plural in followed for verb in ("get", "list", "watch")
    }


def test_of_leases_only_the_one_of_the_election_may_be_read() -> None:
    rules = [rule for each in documents(VIEWER) for rule in each.get("rules", ())]
    named = [rule for rule in rules if "resourceNames" in rule]

    assert [rule["resources"] for rule in named] == [["leases"]]
    assert named[0]["resourceNames"] == [LEASE]


def test_the_role_is_bound_to_an_account_of_its_own() -> None:
    account, role, binding = documents(VIEWER)

    names = {each["metadata"]["name"] for each in (account, role, binding)}
    assert names == {"karpenter-dashboard"}
    subject = {
        "kind": "ServiceAccount",
        "name": account["metadata"]["name"],
        "namespace": account["metadata"]["namespace"],
    }
    assert binding["subjects"] == [subject]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]

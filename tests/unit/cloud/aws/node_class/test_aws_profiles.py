"""Instance profiles are made for roles, renewed with them, and gone when nothing needs them."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from helpers.aws_fakes import Account, FakeAws, HandClock, moto_cloud, node_class
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.cloud.aws.ec2.errors import AwsError, AwsNotFoundError
from karpenter.cloud.aws.node_class.conditions import with_status
from karpenter.cloud.aws.node_class.instance_profiles import InstanceProfiles, legacy_name


@dataclass
class Place:
    aws: FakeAws
    account: Account
    clock: HandClock
    profiles: InstanceProfiles

    def names(self) -> list[str]:
        found = self.account.iam.list_instance_profiles()["InstanceProfiles"]
        return sorted(each["InstanceProfileName"] for each in found)

    def profile(self, name: str) -> Any:
        return self.account.iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]


@pytest.fixture
def place() -> Iterator[Place]:
    clock = HandClock()
    with moto_cloud(clock) as aws:
        account = Account()
        account.role("NodeRole")
        account.role("OtherRole")
        yield Place(aws, account, clock, InstanceProfiles(aws, clock, random.Random(1), "demo"))


def using(profile: str, **spec: Any) -> EC2NodeClass:
    return with_status(node_class(**spec), instance_profile=profile)


@pytest.mark.row("S2-35", "S2-44")
async def test_a_profile_is_made_for_a_role(place: Place) -> None:
    name = await place.profiles.ensure(node_class(tags={"team": "blue"}))
    made = place.profile(name)

    assert name.startswith("demo_")
    assert "/karpenter/us-west-2/demo/uid-of-default/" == made["Path"]
    assert ["NodeRole"] == [role["RoleName"] for role in made["Roles"]]
    assert {
        "team": "blue",
        "kubernetes.io/cluster/demo": "owned",
        "eks:eks-cluster-name": "demo",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "topology.kubernetes.io/region": "us-west-2",
    } == {tag["Key"]: tag["Value"] for tag in made["Tags"]}


async def test_a_profile_that_is_named_is_never_touched(place: Place) -> None:
    wanted = node_class(role="", instance_profile="theirs")

    assert "theirs" == await place.profiles.ensure(wanted)
    assert [] == place.aws.made


async def test_a_profile_is_looked_up_every_fifteen_minutes(place: Place) -> None:
    name = await place.profiles.ensure(node_class())
    for _ in range(3):
        assert name == await place.profiles.ensure(using(name))
    before = place.aws.count("GetInstanceProfile")
    place.clock.passed += 901.0
    again = await place.profiles.ensure(using(name))

    assert name == again
    assert (0, 1) == (before, place.aws.count("GetInstanceProfile"))


async def test_a_status_that_lags_behind_does_not_make_another_profile(place: Place) -> None:
    first = await place.profiles.ensure(node_class())
    second = await place.profiles.ensure(node_class())

    assert first == second
    assert [first] == place.names()


@pytest.mark.case("AWS-50")
async def test_another_role_gets_another_profile_and_the_old_one_is_kept_an_hour(
    place: Place,
) -> None:
    old = await place.profiles.ensure(node_class())
    new = await place.profiles.ensure(using(old, role="OtherRole"))
    place.clock.passed += 1800.0
    kept = await place.profiles.collect_garbage({new})
    place.clock.passed += 1801.0
    deleted = await place.profiles.collect_garbage({new})

    assert old != new
    assert ["OtherRole"] == [role["RoleName"] for role in place.profile(new)["Roles"]]
    assert ((), (old,)) == (kept, deleted)
    assert [new] == place.names()


async def test_a_role_with_a_path_is_the_role_of_that_name(place: Place) -> None:
    name = await place.profiles.ensure(node_class(role="team/NodeRole"))
    place.clock.passed += 901.0

    assert name == await place.profiles.ensure(using(name, role="team/NodeRole"))


@pytest.mark.case("AWS-51")
async def test_a_role_that_does_not_exist_is_not_tried_again_for_a_minute(place: Place) -> None:
    wanted = node_class(role="NoSuchRole")
    for _ in range(3):
        with pytest.raises(AwsNotFoundError, match=r"(?i)role"):
            await place.profiles.ensure(wanted)
    within = place.aws.count("CreateInstanceProfile")
    left = place.names()
    place.clock.passed += 61.0
    with pytest.raises(AwsNotFoundError):
        await place.profiles.ensure(wanted)

    assert (1, 2) == (within, place.aws.count("CreateInstanceProfile"))
    assert [] == left


async def test_a_profile_that_vanished_is_made_again(place: Place) -> None:
    name = await place.profiles.ensure(node_class())
    await place.profiles.delete(name)
    place.clock.passed += 61.0
    again = await place.profiles.ensure(using(name))

    assert [again] == place.names()


@pytest.mark.case("AWS-52")
async def test_garbage_is_what_nothing_names(place: Place) -> None:
    named = await place.profiles.ensure(node_class("one"))
    claimed = await place.profiles.ensure(node_class("two"))
    forgotten = await place.profiles.ensure(node_class("three"))
    place.account.iam.create_instance_profile(InstanceProfileName="theirs", Path="/team/")
    place.clock.passed += 3601.0
    deleted = await place.profiles.collect_garbage({named, claimed})

    assert (forgotten,) == deleted
    assert sorted([named, claimed, "theirs"]) == place.names()


async def test_all_profiles_of_a_class_go_with_it(place: Place) -> None:
    other = await place.profiles.ensure(node_class("other"))
    await place.profiles.ensure(node_class())
    legacy = legacy_name("demo", "us-west-2", "default")
    place.account.iam.create_instance_profile(InstanceProfileName=legacy)
    await place.profiles.delete_all(node_class())

    assert [other] == place.names()


def test_the_name_old_releases_gave() -> None:
    assert "demo_4067990795380418201" == legacy_name("demo", "us-west-2", "default")


def deny(place: Place, operation: str) -> None:
    place.aws.fail("iam", operation, "AccessDenied", "not authorized", status=403, times=99)


async def test_where_profiles_may_not_be_listed_those_known_by_name_go(place: Place) -> None:
    first = await place.profiles.ensure(node_class())
    second = await place.profiles.ensure(using(first, role="OtherRole"))
    deny(place, "ListInstanceProfiles")
    left = await place.profiles.delete_all(using(second, role="OtherRole"))

    assert [] == place.names()
    assert "grant it iam:ListInstanceProfiles" in left


async def test_after_a_restart_the_profile_in_the_status_goes(place: Place) -> None:
    made = await place.profiles.ensure(node_class())
    deny(place, "ListInstanceProfiles")
    restarted = InstanceProfiles(place.aws, place.clock, random.Random(2), "demo")
    await restarted.delete_all(using(made))

    assert [] == place.names()


@pytest.mark.parametrize("spec", [{}, {"role": "", "instance_profile": "theirs"}])
async def test_a_profile_of_the_user_stays_whatever_the_status_says(
    place: Place, spec: dict[str, Any]
) -> None:
    place.account.iam.create_instance_profile(InstanceProfileName="theirs")
    deny(place, "ListInstanceProfiles")
    await place.profiles.delete_all(using("theirs", **spec))

    assert ["theirs"] == place.names()


async def test_a_profile_that_cannot_be_deleted_does_not_keep_the_others(place: Place) -> None:
    names = [await place.profiles.ensure(node_class(f"class-{number}")) for number in range(3)]
    place.clock.passed += 3601.0
    stuck = sorted(names)[0]
    place.aws.fail(
        "iam",
        "DeleteInstanceProfile",
        "DeleteConflict",
        status=409,
        when=lambda parameters: parameters["InstanceProfileName"] == stuck,
    )
    with pytest.raises(AwsError, match="DeleteConflict"):
        await place.profiles.collect_garbage([])

    assert [stuck] == place.names()

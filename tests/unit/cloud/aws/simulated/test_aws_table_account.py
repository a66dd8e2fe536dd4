"""Plans are made of a table of instance types: it says what moto's own data say, type by type."""

import json
import random
import sys
from collections.abc import Callable
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.commands import run
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.clock import Clock, SystemClock
from karpenter.cloud.aws.ec2.calls import AwsCalls
from karpenter.cloud.aws.ec2.errors import AwsNotFoundError
from karpenter.cloud.aws.network.security_groups import SecurityGroups
from karpenter.cloud.aws.network.subnets import Subnets
from karpenter.cloud.aws.settings import AwsSettings
from karpenter.cloud.aws.simulated.account import SimulatedAccount, simulated_account
from karpenter.cloud.aws.simulated.moto_gaps import described_types, offered_types, zone_ids
from karpenter.cloud.aws.simulated.offline import OfflineAws
from karpenter.cloud.aws.simulated.table_account import TableAccount, table_catalogue
from karpenter.cloud.aws.types.catalogue import read_catalogue
from karpenter.cloud.aws.types.facts import facts_of, is_usable
from karpenter.cloud.aws.types.tables import sold_types
from karpenter.inquiry import aws_catalogue

ROOT = Path(__file__).resolve().parents[5]
REFRESH = "run: .venv/bin/python tools/instance_type_facts.py"


def account_calls(account: SimulatedAccount) -> AwsCalls:
    return AwsCalls(account.session, SystemClock(), random.Random(0))


def test_every_type_is_as_moto_has_it() -> None:
    theirs = {
        facts.name: facts for facts in map(facts_of, filter(is_usable, described_types().values()))
    }
    ours = {facts.name: facts for facts in sold_types().types}
    assert sorted(theirs) == list(ours), REFRESH
    assert [] == [name for name, facts in theirs.items() if ours[name] != facts], REFRESH


def test_every_region_has_the_zones_of_moto() -> None:
    assert sold_types().zones == zone_ids(), REFRESH


@pytest.mark.parametrize("region", sorted(sold_types().zones))
def test_every_type_is_sold_where_moto_sells_it(region: str) -> None:
    theirs: dict[str, set[str]] = {}
    usable = {facts.name for facts in sold_types().types}
    for offering in offered_types(region, "availability-zone"):
        if offering["InstanceType"] in usable:
            theirs.setdefault(offering["InstanceType"], set()).add(offering["Location"])
    ours = {name: set(zones) for name, zones in sold_types().sold_in(region).items()}
    assert ours == theirs, REFRESH


def test_the_table_is_small_and_says_where_it_comes_from() -> None:
    file = resources.files("karpenter.cloud.aws") / "tables" / "instance_types.json"
    assert len(file.read_bytes()) < 400_000
    assert "moto" in sold_types().about
    assert "Apache-2.0" in sold_types().about


def selecting(**terms: list[dict[str, Any]]) -> EC2NodeClass:
    """A class that nothing is remembered of."""
    return msgspec.convert(
        {"metadata": {"name": "c", "uid": str(terms)}, "spec": terms}, EC2NodeClass
    )


SELECTORS: list[dict[str, Any]] = [
    {"tags": {"karpenter.sh/discovery": "sandbox"}},
    {"tags": {"karpenter.sh/discovery": "*"}},
    {"tags": {"karpenter.sh/discovery": "sand*"}},
    {"tags": {"karpenter.sh/discovery": "sandbo?"}},
    {"tags": {"karpenter.sh/discovery": "other"}},
    {"tags": {"karpenter.sh/discovery": "sandbox", "team": "a"}},
    {"tags": {"Name": "*"}},
    {"id": "subnet-0123456789"},
]


@pytest.mark.storm  # a simulated account takes moto a second to make
async def test_selectors_find_what_they_find_in_the_simulated_account() -> None:
    clock = SystemClock()
    with simulated_account(clock, cluster="sandbox", region="us-east-1") as account:
        tables = TableAccount(clock, cluster="sandbox", region="us-east-1")
        for term in SELECTORS:
            node_class = selecting(subnetSelectorTerms=[term])
            theirs = await Subnets(account_calls(account), clock).list(node_class)
            ours = await Subnets(tables, clock).list(node_class)
            told = [
                sorted((each.zone, each.zone_id, each.free_addresses) for each in found)
                for found in (theirs, ours)
            ]
            assert told[0] == told[1], term
        for term in [*SELECTORS[:-1], {"name": "sandbox-nodes"}, {"name": "none"}]:
            node_class = selecting(securityGroupSelectorTerms=[term])
            found = await SecurityGroups(account_calls(account), clock).list(node_class)
            same = await SecurityGroups(tables, clock).list(node_class)
            assert {each.name for each in found} == {each.name for each in same}, term
        theirs_sold = await read_catalogue(account_calls(account))
        assert await table_catalogue(tables) == theirs_sold
        spot: dict[str, Any] = {"ProductDescriptions": ["Linux/UNIX"], "MaxResults": 500}
        asked = ("ec2", "DescribeSpotPriceHistory", "SpotPriceHistory")
        prices = [
            {
                (each["InstanceType"], each["AvailabilityZone"]): each["SpotPrice"]
                for each in await calls.pages(*asked, **spot)
            }
            for calls in (account_calls(account), tables)
        ]
        assert prices[0] == prices[1]


async def test_images_are_those_that_are_published() -> None:
    account = TableAccount(SystemClock(), cluster="sandbox", region="us-west-2")
    name = (
        "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/arm64/standard/recommended/image_id"
    )
    image_id = (await account.call("ssm", "GetParameter", Name=name))["Parameter"]["Value"]
    asked = [{"Name": "image-id", "Values": [image_id, "ami-other"]}]
    (image,) = await account.pages("ec2", "DescribeImages", "Images", Filters=asked)
    assert (image_id, "arm64") == (image["ImageId"], image["Architecture"])
    named = [{"Name": "name", "Values": ["*"]}]
    assert [] == await account.pages("ec2", "DescribeImages", "Images", Filters=named)
    with pytest.raises(AwsNotFoundError):
        await account.call("ssm", "GetParameter", Name="/mine")


def example(name: str) -> list[str]:
    return [str(path) for path in sorted((ROOT / "examples" / name).glob("*.yaml"))]


def as_it_is(text: str) -> str:
    return text


def elsewhere(text: str) -> str:
    """In another region, with classes that select what the account has not."""
    for old, new in (
        ("us-west-2", "us-east-1"),
        ("al2023@latest", "bottlerocket@latest"),
        ("discovery: sandbox", "discovery: mine"),
        ("values: [c6i, m5, m6i, r6i]", "values: [c7g, m5d, m7a, t3, inf2]"),
    ):
        text = text.replace(old, new)
    return text


def without_a_class(text: str) -> str:
    parts = text.split("\n---\n")
    return "\n---\n".join(part for part in parts if "kind: EC2NodeClass\nm" not in part)


@pytest.mark.storm  # as above
@pytest.mark.parametrize("change", [as_it_is, elsewhere, without_a_class])
def test_plans_are_those_of_the_simulated_account(
    change: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / Path(path).name for path in example("aws-plan")]
    for source, target in zip(example("aws-plan"), files, strict=True):
        target.write_text(change(Path(source).read_text("utf-8")), "utf-8")
    asked = ("plan", "--provider", "aws", "-o", "json", "--now", "2026-11-01T00:00:00Z")
    command = (*asked, *map(str, files))
    from_tables = run(*command)
    assert (0, []) == (from_tables.code, from_tables.errors)

    async def on_the_account(
        clock: Clock, settings: AwsSettings, *, region: str, uses_reservations: bool
    ) -> OfflineAws:
        account = stack.enter_context(
            simulated_account(clock, cluster=settings.cluster_name, region=region)
        )
        aws = OfflineAws(
            account_calls(account),
            clock,
            settings,
            uses_reservations=uses_reservations,
            read=read_catalogue,
        )
        await aws.start()
        return aws

    with ExitStack() as stack:
        monkeypatch.setattr(aws_catalogue, "offline_aws", on_the_account)
        from_account = run(*command)

    assert (0, from_tables.err) == (from_account.code, from_account.err)
    plan = json.loads(from_tables.out)
    assert plan == json.loads(from_account.out)
    assert plan["provisioning"]["nodeClaims"]


def test_a_plan_needs_neither_moto_nor_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("moto", "boto3", "botocore"):
        monkeypatch.setitem(sys.modules, name, None)
    ran = run("plan", "--provider", "aws", "-o", "json", *example("aws-plan"))
    assert (0, []) == (ran.code, ran.errors)
    assert json.loads(ran.out)["provisioning"]["nodeClaims"]

"""Prices come from AWS where it can be asked, and are estimates where it cannot."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from helpers.aws_fakes import FakeAws, full_catalogue, moto_cloud, product
from karpenter.clock import SystemClock
from karpenter.cloud.aws.ec2.errors import AwsError
from karpenter.cloud.aws.prices.estimates import estimated_price
from karpenter.cloud.aws.prices.pricing import PricesUnknownError, Pricing
from karpenter.cloud.aws.types.tables import branch_interfaces_by_type, on_demand_prices
from karpenter.model import labels

TYPES = full_catalogue(["m5.large", "t3.micro", "m5.metal"])


@pytest.fixture
def aws() -> Iterator[FakeAws]:
    with moto_cloud(SystemClock()) as cloud:
        cloud.state.on_demand_prices = {"m5.large": 0.112, "c5.large": 0.1}
        cloud.state.metal_prices = {"m5.metal": 5.0}
        cloud.state.spot_prices = {("m5.large", "us-west-2a"): 0.04}
        yield cloud


def pricing(aws: FakeAws, **options: Any) -> Pricing:
    made = Pricing(aws, SystemClock(), **options)
    made.estimate(TYPES.facts)
    return made


@pytest.mark.case("AWS-72")
def test_before_aws_has_answered_prices_are_estimates(aws: FakeAws) -> None:
    prices = pricing(aws)

    assert 0.096 == prices.on_demand("m5.large")
    assert 0.0104 == prices.on_demand("t3.micro")
    assert 0.096 == prices.spot("m5.large", "us-west-2a") == prices.spot("m5.large", "us-west-2d")
    assert prices.is_estimate("m5.large")
    assert prices.on_demand("none.such") is None


@pytest.mark.case("AWS-73")
async def test_after_a_refresh_prices_are_those_of_aws(aws: FakeAws) -> None:
    prices = pricing(aws)
    await prices.refresh()

    assert (0.112, 5.0) == (prices.on_demand("m5.large"), prices.on_demand("m5.metal"))
    assert not prices.is_estimate("m5.large")
    assert prices.is_estimate("t3.micro")
    assert 0.04 == prices.spot("m5.large", "us-west-2a")
    assert prices.spot("m5.large", "us-west-2b") is None


async def test_new_prices_are_merged_over_old_ones(aws: FakeAws) -> None:
    prices = pricing(aws)
    await prices.refresh()
    aws.state.on_demand_prices = {"m5.large": 0.2}
    aws.state.spot_prices = {("m5.large", "us-west-2b"): 0.05}
    await prices.refresh()

    assert (0.2, 0.1) == (prices.on_demand("m5.large"), prices.on_demand("c5.large"))
    assert 0.04 == prices.spot("m5.large", "us-west-2a")


@pytest.mark.case("AWS-74")
@pytest.mark.parametrize("empty", ["on_demand_prices", "metal_prices"])
async def test_an_empty_price_list_is_an_error_and_changes_nothing(
    aws: FakeAws, empty: str
) -> None:
    prices = pricing(aws)
    setattr(aws.state, empty, {})

    with pytest.raises(PricesUnknownError, match="no on-demand prices"):
        await prices.refresh()
    assert 0.096 == prices.on_demand("m5.large")
    assert 0.04 == prices.spot("m5.large", "us-west-2a")


async def test_no_spot_prices_at_all_is_an_error(aws: FakeAws) -> None:
    prices = pricing(aws)
    aws.state.spot_prices = {}

    with pytest.raises(PricesUnknownError, match="no spot prices"):
        await prices.refresh()
    assert 0.112 == prices.on_demand("m5.large")


@pytest.mark.case("AWS-75")
@pytest.mark.row("S2-91")
async def test_an_isolated_network_is_never_asked_for_a_price_list(aws: FakeAws) -> None:
    prices = pricing(aws, is_isolated=True)
    await prices.refresh()

    assert {"ec2"} == aws.services()
    assert prices.is_estimate("m5.large")


class InGovCloud(FakeAws):
    """The same account in a region without a price list."""

    @property
    def region(self) -> str:
        return "us-gov-west-1"


@pytest.mark.case("AWS-75")
async def test_a_government_region_is_never_asked_for_a_price_list() -> None:
    with moto_cloud(SystemClock()):
        cloud = InGovCloud(SystemClock())
        cloud.state.spot_prices = {("m5.large", "us-gov-west-1a"): 0.04}
        prices = pricing(cloud)
        await prices.refresh()

    assert {"ec2"} == cloud.services()
    assert prices.is_estimate("m5.large")
    assert 0.04 == prices.spot("m5.large", "us-gov-west-1a")


@pytest.mark.row("S2-42")
async def test_a_price_list_we_may_not_read_leaves_the_estimates(aws: FakeAws) -> None:
    aws.fail("pricing", "GetProducts", "AccessDeniedException", times=2)
    prices = pricing(aws)

    with pytest.raises(AwsError, match="AccessDenied"):
        await prices.refresh()
    assert 0.096 == prices.on_demand("m5.large")


async def test_what_is_asked_of_the_price_list(aws: FakeAws) -> None:
    await pricing(aws).refresh_on_demand()

    calls = [made for made in aws.made if made.operation == "GetProducts"]
    assert {"us-east-1"} == {made.region for made in calls}
    asked = [{f["Field"]: f["Value"] for f in made.parameters["Filters"]} for made in calls]
    assert {"Shared", "Dedicated"} == {each["tenancy"] for each in asked}
    assert {"us-west-2"} == {each["regionCode"] for each in asked}
    assert {"Linux"} == {each["operatingSystem"] for each in asked}


async def test_prices_that_are_none_are_passed_over(aws: FakeAws) -> None:
    texts = [
        product("m5.large", "0.0000"),
        product("c5.large", "free"),
        product("m5.xlarge", "1.0", currency="CNY"),
        "not json",
        product("r5.large", "0.126"),
    ]
    aws.fakes["pricing", "GetProducts"] = lambda parameters: {"PriceList": texts}
    prices = pricing(aws)
    await prices.refresh_on_demand()

    assert 0.126 == prices.on_demand("r5.large")
    assert prices.on_demand("c5.large") is None
    assert prices.on_demand("m5.xlarge") is None
    assert 0.096 == prices.on_demand("m5.large")


async def test_every_page_of_the_price_list_is_read(aws: FakeAws) -> None:
    def paged(parameters: Any) -> dict[str, Any]:
        if "NextToken" in parameters:
            return {"PriceList": [product("c5.large", 0.085)]}
        return {"PriceList": [product("r5.large", 0.126)], "NextToken": "more"}

    aws.fakes["pricing", "GetProducts"] = paged
    prices = pricing(aws)
    await prices.refresh_on_demand()

    assert (0.126, 0.085) == (prices.on_demand("r5.large"), prices.on_demand("c5.large"))


async def test_spot_is_an_estimate_until_ec2_has_told_spot_prices(aws: FakeAws) -> None:
    prices = pricing(aws)
    before = prices.is_estimate("m5.large", labels.SPOT)
    await prices.refresh_spot()

    assert before
    assert not prices.is_estimate("m5.large", labels.SPOT)
    assert prices.is_estimate("m5.large", labels.ON_DEMAND)


async def test_whatever_a_simulated_aws_tells_is_an_estimate(aws: FakeAws) -> None:
    prices = pricing(aws, is_simulated=True)
    await prices.refresh()

    assert 0.112 == prices.on_demand("m5.large")
    assert prices.is_estimate("m5.large")
    assert prices.is_estimate("m5.large", labels.SPOT)


async def test_the_log_says_how_many_types_have_estimates_once(aws: FakeAws) -> None:
    prices = pricing(aws, is_isolated=True)

    with capture_logs() as entries:
        await prices.refresh()
        await prices.refresh()

    assert [("warning", 3, 3)] == [
        (each["log_level"], each["estimated_types"], each["types"]) for each in entries
    ]
    assert "estimates from a built-in table" in entries[0]["event"]


async def test_the_log_says_so_when_prices_come_to_be_told(aws: FakeAws) -> None:
    aws.fail("pricing", "GetProducts", "AccessDeniedException", times=2)
    prices = pricing(aws)

    with capture_logs() as entries:
        with pytest.raises(AwsError):
            await prices.refresh()
        await prices.refresh()
        aws.state.on_demand_prices["t3.micro"] = 0.0105
        await prices.refresh()

    assert [("warning", 3), ("warning", 1), ("info", None)] == [
        (each["log_level"], each.get("estimated_types")) for each in entries
    ]


@pytest.mark.parametrize(
    ("name", "price"),
    [
        ("m5.large", 0.096),
        ("t3.micro", 0.0104),
        ("g5.2xlarge", 1.212),
        ("g6f.large", 0.202),
        ("p5.48xlarge", 55.04),
        ("p6-b200.48xlarge", 113.9328),
        ("m8azn.medium", 0.10323),
        ("m5.metal", 4.608),
    ],
)
def test_estimates_are_those_of_the_table(name: str, price: float) -> None:
    (facts,) = full_catalogue([name]).facts

    assert price == estimated_price(facts)


@pytest.mark.parametrize(
    ("like", "name", "price"),
    [
        pytest.param("m5.24xlarge", "m5.48xlarge", 9.216, id="a larger size of a listed family"),
        pytest.param("m5.large", "m5.medium", 0.048, id="a smaller size of a listed family"),
        pytest.param("m5.metal", "m5.metal-12xl", 2.304, id="bare metal of a listed family"),
        pytest.param("p4d.24xlarge", "p3.24xlarge", 36.72, id="a family sold in other regions"),
        pytest.param("m5.large", "m99.large", 0.3, id="a family nobody knows, by what it has"),
        pytest.param("p4d.24xlarge", "p99.24xlarge", 104.0, id="and by its devices"),
        pytest.param("m5.large", "m5.huge", 0.3, id="a size that says nothing"),
    ],
)
def test_types_that_the_table_does_not_know_are_guessed(like: str, name: str, price: float) -> None:
    (facts,) = full_catalogue([like]).facts

    assert price == pytest.approx(
        estimated_price(msgspec.structs.replace(facts, name=name)), abs=0.01
    )


def test_the_tables_hold_what_can_be_true() -> None:
    prices, branches = on_demand_prices(), branch_interfaces_by_type()

    assert (1345, 1202) == (len(prices), len(branches))
    assert all(0.002 < price < 500 for price in prices.values())
    assert all(0 < number <= 120 for number in branches.values())


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        pytest.param(InGovCloud, {}, "GovCloud", id="GovCloud"),
        pytest.param(FakeAws, {"is_isolated": True}, "ISOLATED_VPC", id="isolated"),
    ],
)
async def test_where_the_price_list_is_not_asked_the_log_says_that_the_table_is_used(
    kind: type[FakeAws], options: dict[str, Any], reason: str
) -> None:
    with moto_cloud(SystemClock()), capture_logs() as entries:
        cloud = kind(SystemClock())
        cloud.state.spot_prices = {("m5.large", "us-west-2a"): 0.04}
        prices = pricing(cloud, **options)
        await prices.refresh()
        await prices.refresh()

    (entry,) = entries
    assert ("warning", 3) == (entry["log_level"], entry["estimated_types"])
    assert reason in entry["event"]
    assert "us-east-1" in entry["event"]

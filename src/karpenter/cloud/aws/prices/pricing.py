"""What instance types cost, on demand and as spot.

On-demand prices come from the Price List service, spot prices from EC2 itself. Until either has
answered, and for types it does not know, there are the built-in estimates; ``is_estimate`` says so,
and so does a line in the log. A failed refresh leaves what is known as it is.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec
import structlog

from karpenter.api.karpenter import NodeOverlay
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.prices.estimates import estimated_price
from karpenter.cloud.aws.types.facts import TypeFacts
from karpenter.cloud.provider import CloudError
from karpenter.model import labels
from karpenter.model.conditions import FALSE, READY, status_of

NONE_SUPPLIED: Final[Mapping[str, float]] = {}

REFRESH: Final = timedelta(hours=12)
_SPOT_PAGE: Final = 2000
_PRODUCTS: Final = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
# Where the Price List service is, by the beginning of the region; the last one is for all others
_PRICE_LISTS: Final = (
    ("ap-", "ap-south-1"),
    ("eu-", "eu-central-1"),
    ("cn-", "cn-northwest-1"),
    ("", "us-east-1"),
)
_FILTERS: Final = {
    "serviceCode": "AmazonEC2",
    "preInstalledSw": "NA",
    "operatingSystem": "Linux",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
# Shared machines, and whole ones: bare metal is only listed as the latter
_QUERIES: Final = (
    {"tenancy": "Shared", "productFamily": "Compute Instance"},
    {"tenancy": "Dedicated", "productFamily": "Compute Instance (bare metal)"},
)

log = structlog.get_logger(__name__)


class PricesUnknownError(CloudError):
    """The answer of AWS holds no prices."""


class _Attributes(msgspec.Struct, frozen=True):
    instance_type: str = msgspec.field(default="", name="instanceType")


class _Product(msgspec.Struct, frozen=True):
    attributes: _Attributes = _Attributes()


class _Dimension(msgspec.Struct, frozen=True):
    price: dict[str, str] = msgspec.field(default_factory=dict, name="pricePerUnit")


class _Term(msgspec.Struct, frozen=True):
    dimensions: dict[str, _Dimension] = msgspec.field(default_factory=dict, name="priceDimensions")


class _Terms(msgspec.Struct, frozen=True):
    on_demand: dict[str, _Term] = msgspec.field(default_factory=dict, name="OnDemand")


class _Listed(msgspec.Struct, frozen=True):
    product: _Product = _Product()
    terms: _Terms = _Terms()


_DECODER: Final = msgspec.json.Decoder(_Listed)


class Pricing:
    """The prices of one region."""

    def __init__(
        self,
        calls: Calls,
        clock: Clock,
        *,
        is_isolated: bool = False,
        is_simulated: bool = False,
    ) -> None:
        """Start with estimates only.

        Args:
            calls: AWS.
            clock: the start time of spot price requests.
            is_isolated: whether the Price List service is out of reach.
            is_simulated: whether it is not AWS that answers, so that its prices are estimates too.
        """
        self.sequence = 0  # grows with every change
        self._calls = calls
        self._clock = clock
        self._is_isolated = is_isolated
        self._estimates: dict[str, float] = {}
        self._on_demand: dict[str, float] = {}  # prices from AWS
        self._spot: dict[tuple[str, str], float] = {}  # by type and zone
        self._knows_spot = False
        self._is_simulated = is_simulated
        self._estimates_logged = 0  # how many types without a price from AWS were last logged

    def estimate(self, types: Iterable[TypeFacts]) -> None:
        """Set estimated prices for every type."""
        self._estimates = {facts.name: estimated_price(facts) for facts in types}
        self.sequence += 1

    def on_demand(self, instance_type: str) -> float | None:
        """The price of an hour on demand."""
        price = self._on_demand.get(instance_type)
        return self._estimates.get(instance_type) if price is None else price

    def spot(self, instance_type: str, zone: str) -> float | None:
        """The price of an hour as spot; until spot prices are known, the one on demand."""
        if not self._knows_spot:
            return self.on_demand(instance_type)
        return self._spot.get((instance_type, zone))

    def is_estimate(self, instance_type: str, capacity_type: str = labels.ON_DEMAND) -> bool:
        """Whether a price is an estimate and not from AWS; so is spot until AWS has answered."""
        if self._is_simulated:
            return True
        is_spot = capacity_type == labels.SPOT
        return not self._knows_spot if is_spot else instance_type not in self._on_demand

    async def refresh(self) -> None:
        """Ask for all prices.

        Raises:
            AwsError, PricesUnknownError: after both kinds were asked for, if either failed.
        """
        results = await asyncio.gather(
            self.refresh_on_demand(), self.refresh_spot(), return_exceptions=True
        )
        self._log_estimates()
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _log_estimates(self) -> None:
        """Log how many types have an estimated price, when the number changes."""
        count = sum(self.is_estimate(name) for name in self._estimates)
        if count == self._estimates_logged:
            return
        self._estimates_logged = count
        if count:
            log.warning(self._advice(), estimated_types=count, types=len(self._estimates))
        else:
            log.info("all prices on demand are those of AWS", types=len(self._estimates))

    def _advice(self) -> str:
        """Why prices on demand are estimates, and until when."""
        table = "prices on demand are estimates from a built-in table of us-east-1"
        if self._is_isolated:
            return f"{table}: the Price List service is not asked with ISOLATED_VPC"
        if self._is_govcloud:
            return f"{table}: the Price List service knows nothing of GovCloud"
        return f"{table} until AWS answers"

    @property
    def _is_govcloud(self) -> bool:
        return self._calls.region.startswith("us-gov")

    async def refresh_on_demand(self) -> None:
        """Ask for prices on demand, unless the Price List service is out of reach."""
        if self._is_isolated or self._is_govcloud:
            return
        tables = await asyncio.gather(*(self._listed(query) for query in _QUERIES))
        if not all(tables):
            raise PricesUnknownError("the price list has no on-demand prices for this region")
        for table in tables:
            self._on_demand.update(table)
        self.sequence += 1

    async def refresh_spot(self) -> None:
        """Ask for spot prices."""
        entries = await self._calls.pages(
            "ec2",
            "DescribeSpotPriceHistory",
            "SpotPriceHistory",
            ProductDescriptions=list(_PRODUCTS),
            StartTime=self._clock.now(),
            MaxResults=_SPOT_PAGE,
        )
        found = await asyncio.to_thread(_newest, entries)
        if not found:
            raise PricesUnknownError("EC2 returned no spot prices")
        self._spot.update(found)
        self._knows_spot = True
        self.sequence += 1

    async def _listed(self, query: Mapping[str, str]) -> dict[str, float]:
        region = self._calls.region
        wanted = {"regionCode": region, **_FILTERS, **query}
        filters = [{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in wanted.items()]
        where = next(place for start, place in _PRICE_LISTS if region.startswith(start))
        currency = "CNY" if region.startswith("cn-") else "USD"
        prices: dict[str, float] = {}
        asked: dict[str, Any] = {"ServiceCode": "AmazonEC2", "Filters": filters}
        while True:
            answer = await self._calls.call("pricing", "GetProducts", region=where, **asked)
            for text in answer.get("PriceList", ()):
                prices.update(_price(text, currency))
            if not answer.get("NextToken"):
                return prices
            asked["NextToken"] = answer["NextToken"]


def _price(text: str, currency: str) -> dict[str, float]:
    try:
        listed = _DECODER.decode(text)
    except msgspec.MsgspecError:
        return {}
    for term in listed.terms.on_demand.values():
        for dimension in term.dimensions.values():
            price = _number(dimension.price.get(currency, ""))
            if price:
                return {listed.product.attributes.instance_type: price}
    return {}


def _newest(entries: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    newest: dict[tuple[str, str], tuple[Any, float]] = {}
    for entry in entries:
        price = _number(str(entry.get("SpotPrice", "")))
        if not price:
            continue
        key = (entry["InstanceType"], entry["AvailabilityZone"])
        known = newest.get(key)
        if known is None or entry["Timestamp"] > known[0]:
            newest[key] = (entry["Timestamp"], price)
    return {key: price for key, (_, price) in newest.items()}


def _number(text: str) -> float:
    """A price; 0 for text that is none."""
    try:
        price = float(text)
    except ValueError:
        return 0.0
    return price if 0.0 < price < float("inf") else 0.0


def supplied_prices(overlays: Iterable[NodeOverlay]) -> Mapping[str, float]:
    """The prices that NodeOverlays give to types that AWS has no price of.

    Such an overlay names instance types and a price, and nothing else. Of several for one type, the
    heaviest decides, then the last by name. A type without any price cannot be launched.
    """
    prices: dict[str, float] = {}
    ordered = sorted(overlays, key=lambda each: (each.spec.weight or 0, each.metadata.name))
    for overlay in ordered:
        price = overlay.spec.price
        if price is None or _is_refused(overlay):
            continue
        for name in _types_alone(overlay):
            prices[name] = float(price)
    return prices or NONE_SUPPLIED


def _types_alone(overlay: NodeOverlay) -> tuple[str, ...]:
    """The types an overlay is for, if it asks for nothing else."""
    if len(overlay.spec.requirements) != 1:
        return ()
    (wanted,) = overlay.spec.requirements
    is_of_types = wanted.key == labels.INSTANCE_TYPE and wanted.operator == "In"
    return wanted.values if is_of_types else ()


def _is_refused(overlay: NodeOverlay) -> bool:
    return status_of(overlay.status.conditions, READY) == FALSE

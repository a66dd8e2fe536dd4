"""The images node classes select, and which of them a type boots.

An image comes with requirements: which types it is for. An alias brings one image per variant; all
other terms bring whatever EC2 finds, distinguished by architecture alone. Of images for the same
types only the best is kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from karpenter.api.karpenter import NodeRequirement
from karpenter.api.node_classes.ec2 import AMISelectorTerm, AMIStatus, EC2NodeClass
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.cache import TtlCache
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.tags import Filter, equals, tag_filters
from karpenter.cloud.aws.images.aliases import (
    ARCHITECTURES,
    architecture_requirement,
    published_images,
)
from karpenter.cloud.aws.images.families import alias_of
from karpenter.cloud.aws.images.parameters import Parameters
from karpenter.cloud.aws.network.versions import KubernetesVersion
from karpenter.cloud.provider import CloudError
from karpenter.cloud.types import InstanceType
from karpenter.model.requirements import Requirements

_PAGE: Final = 1000
_OWN_AND_AMAZON: Final = ("self", "amazon")
_ID_PREFIX: Final = "ami-"
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ImagesNotFoundError(CloudError):
    """An alias under which no image is published."""


@dataclass(frozen=True, slots=True)
class Image:
    id: str
    name: str
    created_at: datetime
    is_deprecated: bool
    requirements: tuple[NodeRequirement, ...]

    @property
    def status(self) -> AMIStatus:
        """The image as a node class lists it."""
        return AMIStatus(
            id=self.id,
            name=self.name,
            deprecated=self.is_deprecated,
            requirements=self.requirements,
        )


class Images:
    """The images of a region, as node classes select them."""

    def __init__(
        self,
        calls: Calls,
        parameters: Parameters,
        version: KubernetesVersion,
        clock: Clock,
        refresh: timedelta = timedelta(minutes=1),
    ) -> None:
        self._calls = calls
        self._parameters = parameters
        self._version = version
        self._clock = clock
        self._found: TtlCache[tuple[str, int, str], tuple[Image, ...]] = TtlCache(
            clock, refresh.total_seconds()
        )

    async def list(self, node_class: EC2NodeClass) -> tuple[Image, ...]:
        """The images of a node class, the newest first.

        Raises:
            ImagesNotFoundError: nothing is published under its alias.
            AwsError: a call to AWS failed.
        """
        version = await self._version.get()
        key = (node_class.metadata.uid, node_class.metadata.generation, version)
        known = self._found.get(key)
        if known is not None:
            return known
        if alias_of(node_class.spec) is None:
            found = await self._selected(node_class.spec.ami_selector_terms)
        else:
            found = await self._published(node_class, version)
        best = best_images(found)
        return self._found.put(
            key, tuple(sorted(best, key=lambda each: (-each.created_at.timestamp(), each.id)))
        )

    async def forget_deprecated_parameters(self) -> None:
        """Drop cached parameters that name a deprecated image, so that they are read again."""
        moving = self._parameters.moving_images()
        if not moving:
            return
        for entry in await self._describe([equals("image-id", sorted(moving))]):
            if _is_deprecated(entry, self._clock.now()):
                for name in moving.get(entry["ImageId"], ()):
                    self._parameters.forget(name)

    async def _published(self, node_class: EC2NodeClass, kubernetes: str) -> Sequence[Image]:
        alias = alias_of(node_class.spec)
        if alias is None:
            return ()
        uses: dict[str, tuple[tuple[NodeRequirement, ...], ...]] = {}
        for published in published_images(alias[0], kubernetes, alias[1]):
            image_id = await self._parameters.get(published.parameter)
            if image_id is not None:
                uses[image_id] = (*uses.get(image_id, ()), *published.uses)
        if not uses:
            raise ImagesNotFoundError(
                f"no image is published for alias {alias[0].alias}@{alias[1]} and Kubernetes"
                f" {kubernetes}; choose a version that exists"
            )
        now = self._clock.now()
        return [
            _image(entry, use, now)
            for entry in await self._describe([equals("image-id", sorted(uses))])
            for use in uses.get(entry["ImageId"], ())
        ]

    async def _selected(self, terms: Sequence[AMISelectorTerm]) -> Sequence[Image]:
        ids = [term.id for term in terms if term.id]
        for term in terms:
            if term.ssm_parameter and not term.id:
                value = await self._parameters.get(term.ssm_parameter, is_custom=True)
                if value is not None and value.startswith(_ID_PREFIX):
                    ids.append(value)
        entries: dict[str, Mapping[str, Any]] = {}
        if ids:
            entries = _by_id(await self._describe([equals("image-id", ids)]))
        for term in terms:
            if not term.id and not term.ssm_parameter:
                entries |= _by_id(await self._describe(_filters(term), _owners(term)))
        now = self._clock.now()
        return [
            _image(entry, (architecture_requirement(entry["Architecture"]),), now)
            for entry in entries.values()
            if entry.get("Architecture") in ARCHITECTURES
        ]

    async def _describe(
        self, filters: Sequence[Filter], owners: Sequence[str] = ()
    ) -> Sequence[Mapping[str, Any]]:
        parameters: dict[str, Any] = {"Owners": list(owners)} if owners else {}
        found: Sequence[Mapping[str, Any]] = await self._calls.pages(
            "ec2",
            "DescribeImages",
            "Images",
            Filters=[*filters, equals("state", ["available"])],
            IncludeDeprecated=True,
            MaxResults=_PAGE,
            **parameters,
        )
        return found


def best_images(images: Iterable[Image]) -> tuple[Image, ...]:
    """Of the images for the same types, the best: in service, then newest, then last by name."""
    best: dict[tuple[NodeRequirement, ...], Image] = {}
    for image in images:
        known = best.get(image.requirements)
        if known is None or _rank(image) > _rank(known):
            best[image.requirements] = image
    return tuple(best.values())


def image_for(images: Sequence[AMIStatus], kind: InstanceType) -> AMIStatus | None:
    """The image a type boots: the first it meets the requirements of."""
    for image in images:
        wanted = Requirements.from_wire(image.requirements)
        if kind.requirements.conflict(wanted) is None:
            return image
    return None


def images_by_type(
    images: Sequence[AMIStatus], types: Iterable[InstanceType]
) -> dict[str, tuple[InstanceType, ...]]:
    """The types each image is for, by id; types without an image are left out."""
    wanted = [(image.id, Requirements.from_wire(image.requirements)) for image in images]
    found: dict[str, list[InstanceType]] = {}
    for kind in types:
        for image_id, requirements in wanted:
            if kind.requirements.conflict(requirements) is None:
                found.setdefault(image_id, []).append(kind)
                break
    return {image_id: tuple(kinds) for image_id, kinds in found.items()}


def _rank(image: Image) -> tuple[bool, datetime, str]:
    return (not image.is_deprecated, image.created_at, image.name)


def _image(entry: Mapping[str, Any], use: tuple[NodeRequirement, ...], now: datetime) -> Image:
    return Image(
        id=entry["ImageId"],
        name=entry.get("Name", ""),
        created_at=_moment(entry.get("CreationDate")) or _LONG_AGO,
        is_deprecated=_is_deprecated(entry, now),
        requirements=use,
    )


def _is_deprecated(entry: Mapping[str, Any], now: datetime) -> bool:
    ends = _moment(entry.get("DeprecationTime"))
    return ends is not None and ends <= now


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _by_id(entries: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {entry["ImageId"]: entry for entry in entries}


def _filters(term: AMISelectorTerm) -> list[Filter]:
    named = [equals("name", [term.name])] if term.name else []
    return [*named, *tag_filters(term.tags)]


def _owners(term: AMISelectorTerm) -> Sequence[str]:
    if term.owner:
        return (term.owner,)
    return _OWN_AND_AMAZON if term.name else ()

"""Images are found by alias, parameter, id, name, tag and owner, and the best one is chosen."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest

from helpers.aws_fakes import (
    ACCOUNT,
    Account,
    FakeAws,
    HandClock,
    al2023_parameter,
    full_catalogue,
    moto_cloud,
    node_class,
)
from karpenter.api.node_classes.ec2 import AMISelectorTerm, AMIStatus, EC2NodeClass
from karpenter.clock import EPOCH
from karpenter.cloud.aws.images.aliases import published_images, unsupported_alias
from karpenter.cloud.aws.images.families import FAMILIES
from karpenter.cloud.aws.images.images import Images, ImagesNotFoundError, image_for, images_by_type
from karpenter.cloud.aws.images.parameters import Parameters
from karpenter.cloud.aws.network.versions import (
    KubernetesVersion,
    UnknownVersionError,
    minor_version,
)
from karpenter.cloud.aws.types.labels import system_requirements
from karpenter.cloud.types import InstanceType
from karpenter.model.requirements import Requirements
from karpenter.model.resources import NO_RESOURCES

TYPES = ("m5.large", "c6g.large", "g4dn.xlarge", "inf2.xlarge", "g5g.xlarge")
CATALOGUE = full_catalogue(TYPES)
DAY = timedelta(days=1)


@dataclass
class Place:
    aws: FakeAws
    account: Account
    clock: HandClock
    images: Images

    async def ids(self, wanted: EC2NodeClass) -> list[str]:
        return [image.id for image in await self.images.list(wanted)]


@pytest.fixture
def place() -> Iterator[Place]:
    clock = HandClock()
    with moto_cloud(clock) as aws:
        version = KubernetesVersion(lambda: _version("1.31"), clock)
        images = Images(aws, Parameters(aws, clock), version, clock)
        yield Place(aws, Account(), clock, images)


async def _version(text: str) -> str:
    return text


def selecting(*terms: AMISelectorTerm) -> EC2NodeClass:
    return node_class(ami_selector_terms=terms, ami_family="AL2023")


def kind(name: str, family: str = "AL2023") -> InstanceType:
    entry = CATALOGUE.entries[name]
    system = system_requirements(entry.facts, FAMILIES[family])
    return InstanceType(name, Requirements([*entry.requirements, *system]), (), NO_RESOURCES)


def images_of_types(found: list[AMIStatus]) -> dict[str, str]:
    chosen = {name: image_for(found, kind(name)) for name in TYPES}
    return {name: image.id for name, image in chosen.items() if image is not None}


@pytest.mark.row("S2-27", "S2-59")
async def test_an_alias_brings_an_image_for_every_variant(place: Place) -> None:
    published = place.account.publish_al2023()
    found = [image.status for image in await place.images.list(node_class())]

    assert 5 == len(found)
    assert {
        "m5.large": published["x86_64/standard"],
        "c6g.large": published["arm64/standard"],
        "g4dn.xlarge": published["x86_64/nvidia"],
        "inf2.xlarge": published["x86_64/neuron"],
        "g5g.xlarge": published["arm64/nvidia"],
    } == images_of_types(found)


@pytest.mark.case("AWS-43")
async def test_variants_that_are_not_published_are_passed_over(place: Place) -> None:
    place.account.image("ami-1", "standard")
    place.account.parameter(al2023_parameter("x86_64", "standard"), "ami-1")
    found = await place.images.list(node_class())

    assert ["ami-1"] == [image.id for image in found]
    assert {"m5.large": "ami-1"} == images_of_types([image.status for image in found])


@pytest.mark.case("AWS-43")
async def test_an_alias_nothing_is_published_for_is_an_error(place: Place) -> None:
    with pytest.raises(ImagesNotFoundError, match=r"alias al2023@latest and Kubernetes 1\.31"):
        await place.images.list(node_class())


@pytest.mark.case("AWS-44")
async def test_an_image_for_two_kinds_of_devices_is_listed_twice(place: Place) -> None:
    place.account.image("ami-gpu", "gpu")
    place.account.parameter(
        "/aws/service/eks/optimized-ami/1.31/amazon-linux-2-gpu/recommended/image_id", "ami-gpu"
    )
    found = await place.images.list(selecting(AMISelectorTerm(alias="al2@latest")))

    assert ["ami-gpu", "ami-gpu"] == [image.id for image in found]
    assert {"g4dn.xlarge": "ami-gpu", "inf2.xlarge": "ami-gpu"} == images_of_types(
        [image.status for image in found]
    )


@pytest.mark.case("AWS-45")
async def test_an_image_in_service_goes_before_a_newer_one_that_is_not(place: Place) -> None:
    place.account.image("ami-old", "app-1", created=EPOCH - 2 * DAY)
    place.account.image("ami-new", "app-2", created=EPOCH - DAY, deprecated=EPOCH)

    assert ["ami-old"] == await place.ids(selecting(AMISelectorTerm(name="app-*")))


@pytest.mark.row("S2-69")
async def test_the_newest_image_of_each_architecture_is_kept(place: Place) -> None:
    tags = {"team": "blue"}
    place.account.image("ami-1", "a", created=EPOCH - 3 * DAY, tags=tags)
    place.account.image("ami-2", "b", created=EPOCH - DAY, tags=tags)
    place.account.image("ami-3", "c", "arm64", created=EPOCH - 2 * DAY, tags=tags)
    place.account.image("ami-4", "d", "i386", created=EPOCH, tags=tags)
    found = [
        image.status for image in await place.images.list(selecting(AMISelectorTerm(tags=tags)))
    ]

    assert ["ami-2", "ami-3"] == [each.id for each in found]
    chosen = images_of_types(found)
    assert ("ami-2", "ami-3") == (chosen["g4dn.xlarge"], chosen["c6g.large"])


@pytest.mark.case("AWS-46")
async def test_of_images_as_old_as_each_other_the_last_by_name_is_chosen(place: Place) -> None:
    place.account.image("ami-1", "app-a")
    place.account.image("ami-2", "app-b")

    assert ["ami-2"] == await place.ids(selecting(AMISelectorTerm(name="app-*")))


@pytest.mark.parametrize(
    ("term", "owners"),
    [
        pytest.param(AMISelectorTerm(name="app"), ["self", "amazon"], id="AWS-47 by name"),
        pytest.param(AMISelectorTerm(name="app", owner="self"), ["self"], id="name and owner"),
        pytest.param(AMISelectorTerm(tags={"a": "b"}), None, id="by tag"),
        pytest.param(
            AMISelectorTerm(tags={"a": "b"}, owner=ACCOUNT), [ACCOUNT], id="tag and owner"
        ),
    ],
)
async def test_whose_images_are_asked_for(
    place: Place, term: AMISelectorTerm, owners: list[str] | None
) -> None:
    await place.images.list(selecting(term))

    asked = [made.parameters for made in place.aws.made if made.operation == "DescribeImages"]
    assert [owners] == [each.get("Owners") for each in asked]
    assert all(each["IncludeDeprecated"] for each in asked)
    assert {"Name": "state", "Values": ["available"]} in asked[0]["Filters"]


@pytest.mark.case("AWS-48")
async def test_ids_and_parameters_share_a_question_and_nonsense_is_passed_over(
    place: Place,
) -> None:
    place.account.image("ami-1", "one")
    place.account.image("ami-2", "two", "arm64")
    place.account.parameter("/mine/image", "ami-2")
    place.account.parameter("/mine/nonsense", "foo")
    found = await place.ids(
        selecting(
            AMISelectorTerm(id="ami-1"),
            AMISelectorTerm(ssm_parameter="/mine/image"),
            AMISelectorTerm(ssm_parameter="/mine/nonsense"),
            AMISelectorTerm(ssm_parameter="/mine/missing"),
        )
    )

    assert ["ami-1", "ami-2"] == sorted(found)
    assert 1 == place.aws.count("DescribeImages")


async def test_parameters_are_kept_for_a_day_and_those_of_users_for_five_minutes(
    place: Place,
) -> None:
    parameters = Parameters(place.aws, place.clock)
    place.account.parameter("/aws/service/eks/x", "ami-1")
    place.account.parameter("/team/mine", "ami-1")
    counts = []
    for seconds in (0.0, 299.0, 2.0, 86400.0):
        place.clock.passed += seconds
        await parameters.get("/aws/service/eks/x")
        await parameters.get("/team/mine", is_custom=True)
        counts.append(place.aws.count("GetParameter"))

    assert [2, 2, 3, 5] == counts


@pytest.mark.case("AWS-49")
async def test_a_parameter_that_names_a_deprecated_image_is_read_anew(place: Place) -> None:
    name = al2023_parameter("x86_64", "standard")
    place.account.image("ami-1", "one", deprecated=EPOCH + timedelta(seconds=100))
    place.account.parameter(name, "ami-1")
    await place.images.list(node_class())
    place.account.image("ami-2", "two")
    place.account.parameter(name, "ami-2")
    place.clock.passed += 99.0
    await place.images.forget_deprecated_parameters()
    kept = await place.ids(node_class())
    place.clock.passed += 61.0
    await place.images.forget_deprecated_parameters()
    renewed = await place.ids(node_class())

    assert (["ami-1"], ["ami-2"]) == (kept, renewed)


@pytest.mark.case("AWS-33")
@pytest.mark.parametrize(
    ("family", "version", "supported"),
    [
        ("AL2", "1.32", True),
        ("AL2", "1.33", False),
        ("Windows2025", "1.34", False),
        ("Windows2025", "1.35", True),
        ("AL2023", "1.36", True),
    ],
    ids=str,
)
def test_aliases_there_are_no_images_for(family: str, version: str, supported: bool) -> None:
    assert supported == (unsupported_alias(FAMILIES[family], version) is None)


@pytest.mark.parametrize(
    ("family", "version", "parameters"),
    [
        pytest.param(
            "AL2",
            "v20240807",
            {
                (
                    "/aws/service/eks/optimized-ami/1.31/amazon-linux-2"
                    "/amazon-eks-node-1.31-v20240807/image_id"
                ),
                (
                    "/aws/service/eks/optimized-ami/1.31/amazon-linux-2-arm64"
                    "/amazon-eks-arm64-node-1.31-v20240807/image_id"
                ),
                (
                    "/aws/service/eks/optimized-ami/1.31/amazon-linux-2-gpu"
                    "/amazon-eks-gpu-node-1.31-v20240807/image_id"
                ),
            },
            id="AL2 of a version",
        ),
        pytest.param(
            "Bottlerocket",
            "v1.20.4",
            {
                f"/aws/service/bottlerocket/aws-k8s-1.31{kind}/{arch}/1.20.4/image_id"
                for kind in ("", "-nvidia")
                for arch in ("x86_64", "arm64")
            },
            id="Bottlerocket without the v",
        ),
        pytest.param(
            "Windows2022",
            "latest",
            {
                (
                    "/aws/service/ami-windows-latest"
                    "/Windows_Server-2022-English-Core-EKS_Optimized-1.31/image_id"
                )
            },
            id="Windows",
        ),
    ],
)
def test_where_images_are_published(family: str, version: str, parameters: set[str]) -> None:
    found = published_images(FAMILIES[family], "1.31", version)

    assert parameters == {each.parameter for each in found}


def test_an_al2023_version_is_part_of_its_parameters() -> None:
    found = published_images(FAMILIES["AL2023"], "1.31", "v20250101")

    assert (
        "/aws/service/eks/optimized-ami/1.31/amazon-linux-2023/arm64/nvidia"
        "/amazon-eks-node-al2023-arm64-nvidia-1.31-v20250101/image_id"
    ) in {each.parameter for each in found}


def test_types_without_an_image_are_left_out() -> None:
    published = published_images(FAMILIES["Windows2022"], "1.31", "latest")
    image = AMIStatus(id="ami-w", requirements=published[0].uses[0])
    types = [kind("m5.large", "Windows2022"), kind("c6g.large", "Windows2022")]

    assert ["m5.large"] == [each.name for each in images_by_type([image], types)["ami-w"]]
    assert image_for([image], kind("m5.large")) is None


async def test_the_version_is_read_again_after_five_minutes() -> None:
    clock = HandClock()
    told = iter(["v1.31.4", "1.32+"])
    version = KubernetesVersion(lambda: _version(next(told)), clock)
    seen = []
    for seconds in (0.0, 299.0, 2.0):
        clock.passed += seconds
        seen.append(await version.get())

    assert ["1.31", "1.31", "1.32"] == seen


def test_what_is_no_version_is_refused() -> None:
    with pytest.raises(UnknownVersionError, match="not a Kubernetes version"):
        minor_version("latest")

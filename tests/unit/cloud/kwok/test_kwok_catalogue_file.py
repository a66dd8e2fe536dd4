"""An instance-types file becomes a catalogue, or one sentence that says what is wrong with it."""

import json
from typing import Any

import pytest

from karpenter.api.node_classes import kwok_labels
from karpenter.cloud.kwok.catalogue import facts_about, load
from karpenter.cloud.kwok.entries import CatalogueError
from karpenter.cloud.types import InstanceType
from karpenter.model import labels
from karpenter.model.requirement import Operator
from karpenter.model.resources import Resources


def way(zone: str = "us-east-1a", capacity_type: str = "on-demand", **more: Any) -> dict[str, Any]:
    return {
        "Price": 1.624,
        "Requirements": [
            {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [capacity_type]},
            {"key": labels.ZONE, "operator": "In", "values": [zone]},
        ],
        **more,
    }


def entry(name: str = "g5.4xlarge", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "1"},
        "offerings": [way()],
        **more,
    }


def read(*entries: Any) -> tuple[InstanceType, ...]:
    return load(json.dumps(entries).encode(), "types.json")


def test_an_entry_becomes_a_type() -> None:
    (found,) = read(entry())

    assert "g5.4xlarge" == found.name
    assert (
        Resources.from_wire(
            {"cpu": "15900m", "memory": "65526Mi", "pods": "110", "nvidia.com/gpu": "1"}
        )
        == found.allocatable
    )
    assert [("us-east-1a", "on-demand", 1.624, True)] == [
        (each.zone, each.capacity_type, each.price, each.available) for each in found.offerings
    ]
    held = {each.key: set(each.values) for each in found.requirements if each.values}
    assert {
        labels.INSTANCE_TYPE: {"g5.4xlarge"},
        labels.ARCH: {"amd64"},
        labels.OS: {"linux"},
        labels.ZONE: {"us-east-1a"},
        labels.CAPACITY_TYPE: {"on-demand"},
        kwok_labels.INSTANCE_SIZE: {"4xlarge"},
        kwok_labels.INSTANCE_FAMILY: {"g5"},
        kwok_labels.INSTANCE_CPU: {"16"},
        kwok_labels.INSTANCE_MEMORY: {"64Gi"},
    } == held


def test_the_order_of_the_file_is_kept() -> None:
    assert ["b", "a", "c"] == [found.name for found in read(entry("b"), entry("a"), entry("c"))]


def test_property_names_are_matched_whatever_their_case_and_unknown_ones_passed_over() -> None:
    (found,) = read(
        {
            "NAME": "m5.large",
            "Architecture": "arm64",
            "operatingsystems": ["linux", "windows"],
            "RESOURCES": {"cpu": 2, "memory": "8192Mi", "pods": "29"},
            "colour": "blue",
            "Offerings": [
                {
                    "price": 0.1,
                    "AVAILABLE": False,
                    "requirements": [
                        {"Key": labels.CAPACITY_TYPE, "Operator": "In", "Values": ["spot"]},
                        {"key": labels.ZONE, "operator": "In", "values": ["z1"]},
                    ],
                }
            ],
        }
    )

    assert {"linux", "windows"} == found.requirements[labels.OS].values
    assert {"8Gi"} == found.requirements[kwok_labels.INSTANCE_MEMORY].values
    assert 29 == found.capacity.pods
    assert (False, 0.1) == (found.offerings[0].available, found.offerings[0].price)


def test_the_older_shorthand_of_offerings_is_accepted() -> None:
    (found,) = read(entry(offerings=[{"zone": "z1", "capacityType": "spot", "price": 0.3}]))

    (offering,) = found.offerings
    assert ("z1", "spot", 0.3) == (offering.zone, offering.capacity_type, offering.price)


def test_an_absent_price_is_nothing() -> None:
    (found,) = read(entry(offerings=[{"zone": "z1", "capacityType": "spot"}]))

    assert 0.0 == found.offerings[0].price


def test_a_reservation_has_the_id_and_the_room_the_file_gives_it() -> None:
    reserved = way(capacity_type="reserved", ReservationCapacity=3)
    reserved["Requirements"].append(
        {"key": kwok_labels.RESERVATION_ID, "operator": "In", "values": ["r-1"]}
    )

    (found,) = read(entry(offerings=[reserved, way()]))

    held, plain = found.offerings
    assert ("r-1", 3, True) == (held.reservation_id, held.reservation_capacity, held.is_launchable)
    assert ("", 0) == (plain.reservation_id, plain.reservation_capacity)
    assert {"r-1"} == found.requirements[kwok_labels.RESERVATION_ID].values
    assert Operator.DOES_NOT_EXIST is plain.requirements[kwok_labels.RESERVATION_ID].operator


def test_a_reservation_without_an_id_is_one_of_its_own() -> None:
    reserved = [way(zone, "reserved", ReservationCapacity=1) for zone in ("z1", "z2")]

    (found,) = read(entry(offerings=reserved))

    assert ["g5.4xlarge.z1", "g5.4xlarge.z2"] == [each.reservation_id for each in found.offerings]


def test_labels_of_offerings_become_well_known_and_absent_elsewhere() -> None:
    rack = {"key": "example.com/rack", "operator": "In", "values": ["r7"]}
    special = way()
    special["Requirements"].append(rack)

    types = read(entry("with", offerings=[special, way()]), entry("without"))

    having, silent = types[0].offerings
    assert "example.com/rack" in facts_about(types).well_known_labels
    assert "r7" == having.requirements["example.com/rack"].any()
    for requirements in (silent.requirements, types[1].requirements):
        assert Operator.DOES_NOT_EXIST is requirements["example.com/rack"].operator


def test_an_offering_that_repeats_a_label_of_its_type_takes_it_from_no_other() -> None:
    repeated = way()
    repeated["Requirements"].append({"key": labels.ARCH, "operator": "In", "values": ["amd64"]})

    types = read(entry("a", offerings=[repeated]), entry("b"))

    assert types[1].offerings[0].requirements.get(labels.ARCH) is None
    assert {"amd64"} == types[1].requirements[labels.ARCH].values


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        pytest.param(b"[", "types.json:1: the file is not JSON: Expecting value", id="not JSON"),
        pytest.param(b"\xff\xfe[", "types.json: the file is not UTF-8 text", id="not text"),
        pytest.param(
            b"{}", "types.json: the file must be a JSON list of instance types", id="an object"
        ),
        pytest.param(
            b"[]",
            "types.json: the list is empty; name at least one instance type",
            id="an empty catalogue",
        ),
        pytest.param(
            b"[" * 100_000,
            "types.json: the file is nested too deeply or too large",
            id="nested too deeply",
        ),
        pytest.param(
            b'[{"name": ' + b"1" * 5000 + b"}]",
            "types.json: the file is nested too deeply or too large",
            id="an endless number",
        ),
        pytest.param(b"[7]", "types.json: [0]: must be an object, not a number", id="a number"),
    ],
)
def test_a_file_that_is_no_catalogue_is_refused(data: bytes, sentence: str) -> None:
    with pytest.raises(CatalogueError) as caught:
        load(data, "types.json")

    assert sentence == str(caught.value)


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        pytest.param(entry(""), "[0]: name is missing", id="no name"),
        pytest.param(
            entry("a b"),
            "[0]: name must be empty or text that starts and ends with a letter or digit and has"
            " only letters, digits, '-', '_' and '.' between, since it becomes a label;"
            " it is 'a b'",
            id="a name that is no label",
        ),
        pytest.param(
            entry(architecture=None),
            "instance type g5.4xlarge: architecture is missing",
            id="no architecture",
        ),
        pytest.param(
            entry(operatingSystems=[]),
            "instance type g5.4xlarge: operatingSystems must list at least one operating system",
            id="no operating system",
        ),
        pytest.param(
            entry(operatingSystems="linux"),
            "instance type g5.4xlarge: operatingSystems must be a list, not text",
            id="operating systems as text",
        ),
        pytest.param(
            entry(resources=None),
            "instance type g5.4xlarge: resources must map resource names to quantities",
            id="no resources",
        ),
        pytest.param(
            entry(resources={"memory": "1Gi"}),
            "instance type g5.4xlarge: resources.cpu is missing",
            id="no cpu",
        ),
        pytest.param(
            entry(resources={"cpu": "many", "memory": "1Gi"}),
            "instance type g5.4xlarge: resources.cpu is wrong: 'many' is not a quantity; write a"
            " number with an optional suffix, such as 2, 500m, 1.5Gi or 1e3",
            id="a bad quantity",
        ),
        pytest.param(
            entry(resources={"cpu": "1", "memory": "-1Gi"}),
            "instance type g5.4xlarge: resources.memory must not be negative: -1Gi",
            id="a negative quantity",
        ),
        pytest.param(
            entry(offerings=[]),
            "instance type g5.4xlarge: offerings must list at least one offering",
            id="no offerings",
        ),
        pytest.param(
            entry(offerings=[{"capacityType": "spot"}]),
            "instance type g5.4xlarge: offerings[0]: requirements must have exactly one value for"
            " topology.kubernetes.io/zone",
            id="an offering without a zone",
        ),
        pytest.param(
            entry(offerings=[way(), {"zone": "z1"}]),
            "instance type g5.4xlarge: offerings[1]: requirements must have exactly one value for"
            " karpenter.sh/capacity-type",
            id="an offering without a capacity type",
        ),
        pytest.param(
            entry(offerings=[way(zone="z1", capacity_type="spot-block")]),
            "instance type g5.4xlarge: offerings[0]: capacity type must be one of on-demand,"
            " reserved, spot, not 'spot-block'",
            id="an unknown capacity type",
        ),
        pytest.param(
            entry(offerings=[way(Price=-0.5)]),
            "instance type g5.4xlarge: offerings[0]: price must be a finite number and not"
            " negative: -0.5",
            id="a negative price",
        ),
        pytest.param(
            entry(offerings=[way(Price=float("nan"))]),
            "instance type g5.4xlarge: offerings[0]: price must be a finite number and not"
            " negative: nan",
            id="a price that is not a number",
        ),
        pytest.param(
            entry(offerings=[way(Price=10**400)]),
            "instance type g5.4xlarge: offerings[0]: price must be a finite number and not"
            " negative: inf",
            id="an infinite price",
        ),
        pytest.param(
            entry(offerings=[way(Price="1.5")]),
            "instance type g5.4xlarge: offerings[0]: price must be a number, not text",
            id="a price in quotes",
        ),
        pytest.param(
            entry(offerings=[way(Available="yes")]),
            "instance type g5.4xlarge: offerings[0]: available must be true or false, not text",
            id="availability as a word",
        ),
        pytest.param(
            entry(offerings=[way(ReservationCapacity=-1)]),
            "instance type g5.4xlarge: offerings[0]: reservationCapacity must be a whole number"
            " and not negative",
            id="a negative reservation",
        ),
        pytest.param(
            entry(offerings=[{"Requirements": [{"key": labels.ZONE, "operator": "Near"}]}]),
            "instance type g5.4xlarge: offerings[0].requirements[0]: operator is wrong: operator"
            " 'Near' of topology.kubernetes.io/zone is unknown; use one of In, NotIn, Exists,"
            " DoesNotExist, Gt, Lt, Gte, Lte",
            id="an unknown operator",
        ),
        pytest.param(
            entry(offerings=[{"Requirements": [{"operator": "In", "values": ["a"]}]}]),
            "instance type g5.4xlarge: offerings[0].requirements[0]: key must be the key of a"
            " label",
            id="a requirement without a key",
        ),
    ],
)
def test_a_broken_entry_is_refused_with_its_type_and_field(
    broken: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(CatalogueError) as caught:
        read(broken)

    assert f"types.json: {sentence}" == str(caught.value)


def test_a_name_may_be_used_once() -> None:
    with pytest.raises(CatalogueError) as caught:
        read(entry("twin"), entry("other"), entry("twin"))

    assert (
        "types.json: instance type twin: the name is used twice; give each type a name of its own"
        == str(caught.value)
    )

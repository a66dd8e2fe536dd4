"""Node classes are kept by group, kind and name, whosever they are."""

from karpenter.api.codec import convert_as, encode
from karpenter.api.karpenter import NodeClassReference
from karpenter.api.meta import Condition
from karpenter.api.node_classes import NodeClass, node_class_model
from karpenter.kube.kinds import resource_of
from karpenter.state.cluster import ClusterState

RACKS = node_class_model("machines.example.com/v1", "MachineClass")
REFERENCE = NodeClassReference("machines.example.com", "MachineClass", "racks")


def machine_class(
    model: type[NodeClass] = RACKS, uid: str = "1", status: str = "True"
) -> NodeClass:
    conditions = [{"type": "Ready", "status": status}]
    return convert_as(
        {
            "apiVersion": model.api_version,
            "kind": "MachineClass",
            "metadata": {"name": "racks", "uid": uid},
            "spec": {"anything": ["goes"]},
            "status": {"conditions": conditions, "somethingElse": 1},
        },
        model,
    )


def test_a_class_of_any_kind_is_found_by_what_pools_name() -> None:
    state = ClusterState()

    assert state.apply(machine_class())
    assert not state.apply(machine_class())
    held = state.snapshot().node_classes

    assert {REFERENCE} == set(held)
    assert (Condition(type="Ready", status="True"),) == held[REFERENCE].status.conditions


def test_a_change_of_its_conditions_is_news() -> None:
    state = ClusterState()
    state.apply(machine_class())

    assert state.apply(machine_class(status="False"))
    assert "False" == state.snapshot().node_classes[REFERENCE].status.conditions[0].status


def test_only_the_object_itself_is_forgotten() -> None:
    state = ClusterState()
    state.apply(machine_class(uid="2"))

    assert not state.delete(machine_class(uid="1"))
    assert state.delete(machine_class(uid="2"))
    assert {} == state.snapshot().node_classes


def test_classes_of_one_kind_in_two_groups_are_two_classes() -> None:
    state = ClusterState()
    state.apply(machine_class())
    state.apply(machine_class(node_class_model("other.example.com/v1", "MachineClass")))

    assert 2 == len(state.snapshot().node_classes)


def test_a_model_made_by_name_is_one_type_that_knows_its_place_on_the_server() -> None:
    assert RACKS is node_class_model("machines.example.com/v1", "MachineClass")
    path = resource_of(RACKS).path(namespace="ignored", name="racks")

    assert "/apis/machines.example.com/v1/machineclasses/racks" == path
    assert encode(machine_class()).startswith(
        b'{"apiVersion":"machines.example.com/v1","kind":"MachineClass",'
    )

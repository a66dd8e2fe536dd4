"""Manifests stand for a cluster: what servers and controllers would add is filled in."""

import msgspec
import pytest

from helpers.builders import (
    APP_T,
    NOW,
    UNSCHEDULABLE,
    condition,
    container,
    daemon_set,
    node,
    node_pool,
    owner,
    pod,
    pod_spec,
    pods,
    pvc,
    replica_set,
)
from karpenter.api.devices import (
    DeviceClaim,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from karpenter.api.karpenter import NodePool
from karpenter.api.meta import Condition, ObjectMeta, OwnerReference, Resource
from karpenter.api.pods import (
    EphemeralVolumeSource,
    Pod,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Volume,
)
from karpenter.api.policy import LimitRange, LimitRangeItem, LimitRangeSpec, PriorityClass
from karpenter.api.storage import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
)
from karpenter.api.workloads import DaemonSet, ReplicaSet
from karpenter.model.resources import Resources
from karpenter.state.expansion import Expansion, InputProblem, expand
from karpenter.state.requests import pod_requests


def bare(name: str = "web", namespace: str = "", uid: str = "") -> Pod:
    """A pod as people write them: neither uid nor status nor namespace."""
    metadata = ObjectMeta(name=name, namespace=namespace, uid=uid)
    return Pod(metadata=metadata, spec=pod_spec(cpu="1"))


def only(*resources: Resource) -> Resource:
    (found,) = expanded(*resources)
    return found


def expanded(*resources: Resource) -> tuple[Resource, ...]:
    expansion = expand(resources)
    assert () == expansion.problems
    return expansion.objects


# Priorities


def priority_class(name: str, value: int, *, is_default: bool = False) -> PriorityClass:
    return PriorityClass(metadata=ObjectMeta(name=name), value=value, global_default=is_default)


HIGH = priority_class("high", 1000)
USUAL = priority_class("usual", 5, is_default=True)


@pytest.mark.parametrize(
    ("spec", "classes", "expected"),
    [
        pytest.param({"priority_class_name": "high"}, [HIGH], ("high", 1000), id="its class"),
        pytest.param(
            {"priority_class_name": "high"}, [HIGH, USUAL], ("high", 1000), id="not the default"
        ),
        pytest.param({}, [HIGH, USUAL], ("usual", 5), id="the default of all pods"),
        pytest.param(
            {},
            [USUAL, priority_class("less", 3, is_default=True)],
            ("less", 3),
            id="the lowest default",
        ),
        pytest.param({}, [HIGH], ("", None), id="no default"),
        pytest.param({"priority_class_name": "odd"}, [HIGH], ("odd", None), id="nobody's class"),
        pytest.param(
            {"priority_class_name": "system-node-critical"},
            [],
            ("system-node-critical", 2_000_001_000),
            id="a class that every cluster has",
        ),
        pytest.param({"priority": 7}, [USUAL], ("", 7), id="stored before the class was"),
    ],
)
def test_a_pod_gets_the_priority_that_a_server_would_give_it(
    spec: dict[str, object],
    classes: list[PriorityClass],
    expected: tuple[str, int | None],
) -> None:
    given = bare()
    given = msgspec.structs.replace(given, spec=msgspec.structs.replace(given.spec, **spec))

    (found,) = (each for each in expanded(given, *classes) if isinstance(each, Pod))

    assert expected == (found.spec.priority_class_name, found.spec.priority)


def test_pods_of_a_workload_get_it_too_and_the_template_stays_as_it_is() -> None:
    workload = replica_set("web", 2)
    found = expanded(workload, USUAL)

    made = [each for each in found if isinstance(each, Pod)]
    (kept,) = (each for each in found if isinstance(each, ReplicaSet))
    assert [5, 5] == [each.spec.priority for each in made]
    assert kept.spec.template.spec.priority is None


# Names


def test_an_object_gets_the_namespace_and_uid_it_lacks() -> None:
    found = only(bare())

    assert ("default", "pod/default/web") == (found.metadata.namespace, found.metadata.uid)


def test_a_namespace_and_uid_that_are_given_stay() -> None:
    found = only(bare(namespace="shop", uid="u-1"))

    assert ("shop", "u-1") == (found.metadata.namespace, found.metadata.uid)


def test_an_object_that_lives_in_no_namespace_gets_none() -> None:
    found = only(NodePool(metadata=ObjectMeta(name="np", namespace="default")))

    assert ("", "nodepool/np") == (found.metadata.namespace, found.metadata.uid)


def test_uids_differ_between_kinds_and_namespaces() -> None:
    found = expanded(
        bare("a"),
        bare("a", namespace="other"),
        ReplicaSet(metadata=ObjectMeta(name="a"), spec=replica_set(replicas=0).spec),
    )

    assert 3 == len({each.metadata.uid for each in found})


def test_an_owner_without_a_uid_gets_the_one_its_pods_know() -> None:
    agent = daemon_set("agent")
    unseen = DaemonSet(metadata=ObjectMeta(name="agent"), spec=agent.spec)
    reference = OwnerReference(
        api_version="apps/v1", kind="DaemonSet", name="agent", uid="ds-7", controller=True
    )

    found = expanded(unseen, pod("agent-x", node_name="n", owners=[reference]))

    assert ["ds-7"] == [each.metadata.uid for each in found if isinstance(each, DaemonSet)]


def test_generated_names_follow_from_the_object_and_not_from_its_place() -> None:
    one = Pod(metadata=ObjectMeta(generate_name="job-"), spec=pod_spec(cpu="1"))
    two = Pod(metadata=ObjectMeta(generate_name="job-"), spec=pod_spec(cpu="2"))

    forwards = [each.metadata.name for each in expanded(one, one, two)]
    backwards = [each.metadata.name for each in expanded(two, one, one)]

    assert forwards == backwards
    assert 3 == len(set(forwards))
    assert all(name.startswith("job-") for name in forwards)


def test_an_object_without_any_name_is_a_problem() -> None:
    expansion = expand([bare(), bare("")])

    problem = InputProblem("this Pod has no name; set metadata.name", (1,))
    assert Expansion(problems=(problem,)) == expansion


def test_two_objects_of_one_name_are_a_problem_that_names_both() -> None:
    expansion = expand([bare("web"), node("web"), bare("web", namespace="default")])

    problem = InputProblem("Pod default/web is given twice; remove one of the two", (0, 2))
    assert Expansion(problems=(problem,)) == expansion


def test_a_workload_no_cluster_could_hold_is_a_problem() -> None:
    expansion = expand([bare(), replica_set("web", 10**9)])

    (problem,) = expansion.problems
    assert () == expansion.objects
    assert (1,) == problem.positions
    assert problem.text.startswith("ReplicaSet default/web asks for 1000000000 pods")


def test_objects_of_one_name_but_different_kinds_or_namespaces_are_no_problem() -> None:
    found = expanded(bare("web"), bare("web", namespace="other"), node("web"), pvc("web"))

    assert 4 == len(found)


def test_the_order_of_the_input_does_not_matter() -> None:
    objects = [bare("b"), replica_set("web", 3), node("n"), node_pool(), bare("a")]

    assert expanded(*objects) == expanded(*reversed(objects))


# Conditions


def test_a_pod_without_node_and_conditions_counts_as_unschedulable() -> None:
    found = only(bare())

    assert isinstance(found, Pod)
    assert [UNSCHEDULABLE] == list(found.status.conditions)
    assert "Pending" == found.status.phase


def test_a_gated_pod_counts_as_gated() -> None:
    gated = msgspec.structs.replace(bare(), spec=pod_spec(gates=["example.com/wait"]))

    found = only(gated)

    assert isinstance(found, Pod)
    assert ["SchedulingGated"] == [each.reason for each in found.status.conditions]


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(pod("a", node_name="n"), id="a bound pod"),
        pytest.param(pod("a", conditions=[condition("Ready")]), id="a pod with conditions"),
        pytest.param(pod("a", conditions=[], phase="Succeeded"), id="a finished pod"),
        pytest.param(pod("a", conditions=[], deleted=NOW), id="a terminating pod"),
    ],
)
def test_what_a_cluster_said_about_a_pod_stands(known: Pod) -> None:
    found = only(known)

    assert isinstance(found, Pod)
    assert known.status == found.status


def test_a_pool_without_a_ready_condition_counts_as_ready() -> None:
    found = only(node_pool(conditions=[condition("NodeClassReady")]))

    assert isinstance(found, NodePool)
    held = [(each.type, each.status) for each in found.status.conditions]
    assert [("NodeClassReady", "True"), ("Ready", "True")] == held


@pytest.mark.parametrize(
    "told",
    [
        pytest.param([condition("Ready", "False")], id="and nothing else"),
        pytest.param([condition("NodeClassReady"), condition("Ready", "False")], id="among others"),
    ],
)
def test_a_pool_that_is_said_not_to_be_ready_is_not(told: list[Condition]) -> None:
    found = only(node_pool(conditions=told))

    assert isinstance(found, NodePool)
    assert told == list(found.status.conditions)


def test_a_name_that_is_given_stands_whatever_could_be_generated() -> None:
    found = only(Pod(metadata=ObjectMeta(name="web", generate_name="job-"), spec=pod_spec(cpu="1")))

    assert "web" == found.metadata.name


# Requests


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            pod_spec(limits={"acme/gpu-a": "1", "cpu": "2"}),
            {"acme/gpu-a": "1", "cpu": "2"},
            id="limits become requests",
        ),
        pytest.param(
            pod_spec(cpu="1", limits={"cpu": "2", "memory": "1Gi"}),
            {"cpu": "1", "memory": "1Gi"},
            id="requests that are there stay",
        ),
        pytest.param(
            pod_spec(cpu="1", init_containers=[container(limits={"cpu": "3"}, name="init")]),
            {"cpu": "3"},
            id="of init containers too",
        ),
        pytest.param(
            PodSpec(
                containers=(container("1"),),
                resources=ResourceRequirements(limits={"cpu": "4", "memory": "2Gi"}),
            ),
            {"cpu": "1", "memory": "2Gi"},
            id="limits of the whole pod become requests where containers are silent",
        ),
    ],
)
def test_requests_that_are_missing_follow_from_limits(
    spec: PodSpec, expected: dict[str, str]
) -> None:
    found = only(Pod(metadata=ObjectMeta(name="web"), spec=spec))

    assert isinstance(found, Pod)
    assert Resources.from_wire({"pods": 1, **expected}) == pod_requests(found)


def limit_range(name: str = "defaults", namespace: str = "", **amounts: object) -> LimitRange:
    item = msgspec.convert({"type": "Container", **amounts}, LimitRangeItem)
    return LimitRange(
        metadata=ObjectMeta(name=name, namespace=namespace), spec=LimitRangeSpec(limits=(item,))
    )


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        pytest.param(
            [limit_range(defaultRequest={"cpu": "100m", "memory": "128Mi"})],
            {"cpu": "1", "memory": "128Mi"},
            id="a default request is given to those who ask for nothing",
        ),
        pytest.param(
            [limit_range(default={"memory": "256Mi"}, max={"memory": "1Gi", "acme/x": "2"})],
            {"cpu": "1", "memory": "256Mi", "acme/x": "2"},
            id="else the default limit, else the largest amount",
        ),
        pytest.param(
            [
                limit_range("b", defaultRequest={"memory": "2Mi"}),
                limit_range("a", defaultRequest={"memory": "1Mi"}),
            ],
            {"cpu": "1", "memory": "1Mi"},
            id="the first of several by name decides",
        ),
        pytest.param(
            [limit_range(namespace="other", defaultRequest={"memory": "1Mi"})],
            {"cpu": "1"},
            id="a range of another namespace does not matter",
        ),
        pytest.param(
            [limit_range(type="Pod", max={"memory": "1Mi"})],
            {"cpu": "1"},
            id="a range for whole pods gives nothing",
        ),
    ],
)
def test_limit_ranges_give_requests_to_new_pods(
    ranges: list[LimitRange], expected: dict[str, str]
) -> None:
    (found,) = (each for each in expanded(bare(), *ranges) if isinstance(each, Pod))

    assert Resources.from_wire({"pods": 1, **expected}) == pod_requests(found)


@pytest.mark.parametrize("stored", [bare(uid="u-1"), pod("web", cpu="1", node_name="n")])
def test_limit_ranges_give_nothing_to_pods_a_server_has_stored(stored: Pod) -> None:
    objects = expanded(stored, limit_range(defaultRequest={"memory": "1Mi"}))

    assert [0] == [pod_requests(each).memory for each in objects if isinstance(each, Pod)]


def test_the_pods_of_a_workload_share_one_spec() -> None:
    found = [
        each
        for each in expanded(
            replica_set("web", 3, limits={"cpu": "1"}), limit_range(default={"memory": "1Gi"})
        )
        if isinstance(each, Pod)
    ]

    assert 3 == len(found)
    assert 1 == len({id(each.spec) for each in found})
    assert {(1000, 2**30)} == {(r.cpu, r.memory) for r in map(pod_requests, found)}


def test_pods_given_beside_their_workload_are_left_as_they_are() -> None:
    given = pods(2, "web", labels=APP_T, owners=[owner("ReplicaSet", "web")], node_name="n")

    found = expanded(replica_set("web", 2), *given)

    assert given == [each for each in found if isinstance(each, Pod)]


def test_the_claims_of_ephemeral_volumes_are_made_unless_they_are_there() -> None:
    template = PersistentVolumeClaimTemplate(spec=PersistentVolumeClaimSpec(storage_class_name="a"))
    volumes = tuple(
        Volume(name=name, ephemeral=EphemeralVolumeSource(volume_claim_template=template))
        for name in ("scratch", "cache")
    )
    given = bare()
    mounting = msgspec.structs.replace(
        given, spec=msgspec.structs.replace(given.spec, volumes=volumes)
    )

    namesake = bare("web-scratch")
    objects = expanded(mounting, namesake, pvc("web-cache", storage_class="b"))

    claims = [each for each in objects if isinstance(each, PersistentVolumeClaim)]
    assert [("default/web-cache", "b"), ("default/web-scratch", "a")] == [
        (f"{each.metadata.namespace}/{each.metadata.name}", each.spec.storage_class_name)
        for each in claims
    ]


def test_the_claims_of_device_templates_are_made_unless_they_are_there() -> None:
    one = DeviceClaim(requests=(DeviceRequest(name="gpu"),))
    template = ResourceClaimTemplate(
        metadata=ObjectMeta(name="one"),
        spec=ResourceClaimTemplateSpec(spec=ResourceClaimSpec(devices=one)),
    )
    wanted = (
        PodResourceClaim("new", resource_claim_template_name="one"),
        PodResourceClaim("given", resource_claim_template_name="one"),
        PodResourceClaim("needless", resource_claim_template_name="one"),
        PodResourceClaim("shared", resource_claim_name="common"),
        PodResourceClaim("lost", resource_claim_template_name="no-such"),
    )
    needless = PodResourceClaimStatus("needless")
    asking = Pod(
        metadata=ObjectMeta(name="web"),
        spec=PodSpec(resource_claims=wanted),
        status=PodStatus(resource_claim_statuses=(needless,)),
    )

    objects = expanded(asking, template, ResourceClaim(metadata=ObjectMeta(name="web-given")))

    assert [("web-given", DeviceClaim()), ("web-new", one)] == [
        (each.metadata.name, each.spec.devices)
        for each in objects
        if isinstance(each, ResourceClaim)
    ]
    made = [PodResourceClaimStatus("new", "web-new"), PodResourceClaimStatus("given", "web-given")]
    assert [(needless, *made)] == [
        each.status.resource_claim_statuses for each in objects if isinstance(each, Pod)
    ]

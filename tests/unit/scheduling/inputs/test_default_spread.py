"""Pods that ask for no spread get the scheduler's, over the pods they belong together with."""

from collections.abc import Sequence

import pytest

from helpers.builders import (
    APP_T,
    owner,
    pod,
    pods,
    replica_set,
    selector,
    service,
    spread,
)
from helpers.solver import Answer, solved
from karpenter.api.meta import ObjectMeta, Resource
from karpenter.api.pods import Pod, TopologySpreadConstraint
from karpenter.api.selectors import LabelSelector
from karpenter.api.workloads import (
    ReplicationController,
    ReplicationControllerSpec,
    StatefulSet,
    StatefulSetSpec,
)
from karpenter.model import labels as keys
from karpenter.scheduling.inputs.default_spread import deduced_selector, default_spread
from karpenter.scheduling.inputs.scheduler_config import (
    SchedulerConfigError,
    parse_scheduler_config,
)
from karpenter.state.cluster import ClusterState
from karpenter.state.snapshot import Snapshot

OVER_ZONES = (spread(selector=None),)
BY_SET = [owner("ReplicaSet", "web")]
BY_STATEFUL_SET = [owner("StatefulSet", "web")]
BY_CONTROLLER = [owner("ReplicationController", "web", "v1")]


def cluster(*objects: Resource) -> Snapshot:
    state = ClusterState()
    for resource in objects:
        state.apply(resource)
    return state.snapshot()


def stateful_set(labels: LabelSelector) -> StatefulSet:
    return StatefulSet(
        metadata=ObjectMeta(name="web", namespace="default"), spec=StatefulSetSpec(selector=labels)
    )


def replication_controller(**labels: str) -> ReplicationController:
    return ReplicationController(
        metadata=ObjectMeta(name="web", namespace="default"),
        spec=ReplicationControllerSpec(selector=labels),
    )


def solved_by_default(wanted: Sequence[Pod], *objects: Resource) -> Answer:
    given = default_spread(wanted, OVER_ZONES, cluster(*objects))
    by_name = {p.metadata.name: given[p.metadata.uid] for p in wanted if p.metadata.uid in given}
    return solved(wanted, default_spread=by_name)


# What it does to pods


@pytest.mark.case("SCH-177")
def test_pods_of_a_replica_set_spread_over_zones() -> None:
    answer = solved_by_default(pods(4, labels=APP_T, owners=BY_SET), replica_set("web"))

    assert [1, 1, 2] == sorted(answer.pods_in_zones.values())


@pytest.mark.case("SCH-178")
def test_pods_with_constraints_of_their_own_keep_to_them() -> None:
    own = spread(keys.HOSTNAME, max_skew=5)
    wanted = pods(4, labels=APP_T, owners=BY_SET, spread=[own])

    assert {} == default_spread(wanted, OVER_ZONES, cluster(replica_set("web")))
    assert [4] == solved_by_default(wanted, replica_set("web")).loads


@pytest.mark.case("SCH-179")
def test_a_pod_that_belongs_to_nothing_is_free() -> None:
    answer = solved_by_default(pods(4, labels=APP_T), service("other", {"app": "other"}))

    assert [4] == answer.loads


@pytest.mark.case("SCH-180")
def test_pods_of_a_job_spread_when_a_service_selects_them() -> None:
    of_job = pods(3, labels=APP_T, owners=[owner("Job", "batch", "batch/v1")])

    assert [3] == solved_by_default(of_job).loads
    assert ["z1", "z2", "z3"] == solved_by_default(of_job, service("s", APP_T)).zones


@pytest.mark.case("SCH-181")
def test_a_replica_set_that_contradicts_a_service_leaves_nothing_to_count() -> None:
    wanted = pods(3, labels={"app": "web"}, owners=BY_SET)
    surroundings = (service("s", {"app": "web"}), replica_set("web", labels={"app": "other"}))

    answer = solved_by_default(wanted, *surroundings)

    assert [3] == answer.loads


@pytest.mark.case("SCH-181")
def test_a_replication_controller_beats_a_service() -> None:
    wanted = pod(labels={"app": "web"}, owners=BY_CONTROLLER)
    surroundings = cluster(service("s", {"app": "web"}), replication_controller(app="other"))

    assert selector({"app": "other"}) == deduced_selector(wanted, surroundings)


def test_a_default_that_is_a_mere_wish_is_given_up() -> None:
    wanted = pods(2, labels=APP_T, owners=BY_SET, node_selector={keys.ZONE: "z1"})
    wish = (spread(keys.REGION, selector=None, soft=True),)
    given = default_spread(wanted, wish, cluster(replica_set("web")))

    answer = solved(wanted, default_spread={p.metadata.name: given[p.metadata.uid] for p in wanted})

    assert 2 == len(answer.placed)


# Which pods belong together


@pytest.mark.parametrize(
    ("wanted", "objects", "expected"),
    [
        pytest.param(
            pod(labels={"a": "1", "b": "2"}),
            [service("s", {"a": "1"}), service("t", {"b": "2"}), service("u", {"b": "3"})],
            selector({"a": "1", "b": "2"}),
            id="services that select it together",
        ),
        pytest.param(
            pod(labels={"a": "1"}),
            [service("s", {"a": "1"}, namespace="other")],
            None,
            id="not services of other namespaces",
        ),
        pytest.param(
            pod(labels={"a": "1"}), [service("s", {})], None, id="not a service that selects all"
        ),
        pytest.param(
            pod(labels={"a": "1"}, owners=BY_STATEFUL_SET),
            [stateful_set(selector({"a": "1"}, ("tier", "Exists", ())))],
            selector({}, ("a", "In", ("1",)), ("tier", "Exists", ())),
            id="a StatefulSet by all it says",
        ),
        pytest.param(
            pod(labels={"a": "1", "b": "2"}, owners=BY_SET),
            [service("s", {"b": "2"}), replica_set("web", labels={"a": "1"})],
            selector({"b": "2"}, ("a", "In", ("1",))),
            id="a service and a ReplicaSet at once",
        ),
        pytest.param(
            pod(labels={"a": "1", "b": "2"}, owners=BY_CONTROLLER),
            [service("s", {"b": "2"}), replication_controller(a="1")],
            selector({"a": "1", "b": "2"}),
            id="a service and a ReplicationController at once",
        ),
        pytest.param(
            pod(labels=APP_T, owners=[owner("ReplicaSet", "gone")]),
            [replica_set("web")],
            None,
            id="not a ReplicaSet that does not exist",
        ),
        pytest.param(
            pod(labels=APP_T, namespace="other", owners=BY_SET),
            [replica_set("web")],
            None,
            id="not a ReplicaSet of another namespace",
        ),
        pytest.param(
            pod(labels=APP_T, owners=[owner("ReplicaSet", "web", "acme.com/v1")]),
            [replica_set("web")],
            None,
            id="not a ReplicaSet of another API",
        ),
    ],
)
def test_what_a_pod_belongs_to(
    wanted: Pod, objects: list[Resource], expected: LabelSelector | None
) -> None:
    assert expected == deduced_selector(wanted, cluster(*objects))


def test_without_defaults_nothing_is_looked_up() -> None:
    assert {} == default_spread(pods(2, labels=APP_T, owners=BY_SET), (), cluster(replica_set()))


# How it is configured


def constraint(**fields: object) -> dict[str, object]:
    return {
        "maxSkew": 1,
        "topologyKey": keys.ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        **fields,
    }


def config(*constraints: dict[str, object]) -> str:
    listed = "".join(f"\n  - {entry}" for entry in constraints)
    return f"podTopologySpread:\n  defaultConstraints:{listed}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", (), id="nothing"),
        pytest.param("# nothing yet\n", (), id="a comment"),
        pytest.param("{}", (), id="an empty object"),
        pytest.param("podTopologySpread:\n", (), id="an empty section"),
        pytest.param("podTopologySpread: {defaultConstraints: []}", (), id="an empty list"),
        pytest.param(config(constraint()), OVER_ZONES, id="YAML"),
        pytest.param(
            '{"podTopologySpread": {"defaultConstraints": [{"maxSkew": 3, "topologyKey":'
            ' "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}]}}',
            (spread(keys.HOSTNAME, 3, soft=True, selector=None),),
            id="JSON",
        ),
        pytest.param(
            config(
                constraint(minDomains=2, nodeTaintsPolicy="Honor", nodeAffinityPolicy="Ignore"),
                constraint(whenUnsatisfiable="ScheduleAnyway"),
            ),
            (
                spread(
                    selector=None,
                    min_domains=2,
                    node_taints_policy="Honor",
                    node_affinity_policy="Ignore",
                ),
                spread(selector=None, soft=True),
            ),
            id="every field, and one key with both actions",
        ),
    ],
)
def test_a_configuration(text: str, expected: tuple[TopologySpreadConstraint, ...]) -> None:
    assert expected == parse_scheduler_config(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            config(constraint(maxSkew=0)),
            "podTopologySpread.defaultConstraints[0].maxSkew must be greater than 0, not 0",
            id="no skew at all",
        ),
        pytest.param(
            config(constraint(), constraint(topologyKey="not a key")),
            "podTopologySpread.defaultConstraints[1].topologyKey 'not a key' must have a name that"
            " starts and ends with a letter or digit and has only letters, digits, '-', '_' and"
            " '.' between",
            id="a key that is none",
        ),
        pytest.param(
            config(constraint(topologyKey="")),
            "podTopologySpread.defaultConstraints[0].topologyKey '' must not be empty",
            id="an empty key",
        ),
        pytest.param(
            config(constraint(whenUnsatisfiable="Never")),
            "podTopologySpread.defaultConstraints[0].whenUnsatisfiable must be DoNotSchedule or"
            " ScheduleAnyway, not 'Never'",
            id="an unknown action",
        ),
        pytest.param(
            config(constraint(nodeTaintsPolicy="Obey")),
            "podTopologySpread.defaultConstraints[0].nodeTaintsPolicy must be Honor or Ignore,"
            " not 'Obey'",
            id="an unknown policy",
        ),
        pytest.param(
            config(constraint(minDomains=0)),
            "podTopologySpread.defaultConstraints[0].minDomains must be greater than 0, not 0",
            id="no domain at all",
        ),
        pytest.param(
            config(constraint(labelSelector={})),
            "podTopologySpread.defaultConstraints[0].labelSelector must not be set; it follows"
            " from what a pod belongs to",
            id="a selector",
        ),
        pytest.param(
            config(constraint(matchLabelKeys=["r"])),
            "podTopologySpread.defaultConstraints[0].matchLabelKeys must not be set; the selector"
            " follows from what a pod belongs to",
            id="label keys",
        ),
        pytest.param(
            config(constraint(), constraint(topologyKey="failure-domain.beta.kubernetes.io/zone")),
            "podTopologySpread.defaultConstraints[1] repeats topologyKey"
            " failure-domain.beta.kubernetes.io/zone with DoNotSchedule; remove one of the two",
            id="one key and action twice",
        ),
        pytest.param(
            config({"maxSkew": 1, "topologyKey": "k"}),
            "podTopologySpread.defaultConstraints[0].whenUnsatisfiable: required field is missing",
            id="a missing field",
        ),
        pytest.param(
            config(constraint(maxSkew="one")),
            "podTopologySpread.defaultConstraints[0].maxSkew: expected a whole number,"
            " got a string",
            id="a word for a number",
        ),
        pytest.param(
            config(constraint(maxskew=1)),
            "podTopologySpread.defaultConstraints[0]: object contains unknown field `maxskew`",
            id="an unknown field of a constraint",
        ),
        pytest.param(
            "podTopologySpread: {constraints: []}",
            "podTopologySpread: object contains unknown field `constraints`",
            id="an unknown field of the section",
        ),
        pytest.param(
            "profiles: []", "object contains unknown field `profiles`", id="an unknown section"
        ),
        pytest.param("[]", "expected a map, got a list", id="a list"),
        pytest.param("{}\n---\n{}", "expected one document, got 2", id="two documents"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused_in_one_sentence(
    text: str, problem: str
) -> None:
    with pytest.raises(SchedulerConfigError) as refused:
        parse_scheduler_config(text)

    assert f"SCHEDULER_CONFIG: {problem}" == str(refused.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param("a: 1\na: 2", "SCHEDULER_CONFIG:2:1: ", id="a key that is set twice"),
        pytest.param('{"a": 1, "a": 2}', "SCHEDULER_CONFIG:1:10: ", id="the same in JSON"),
        pytest.param("a: &a [*a]", "SCHEDULER_CONFIG:1:8: ", id="text that contains itself"),
        pytest.param("a\x00b", "SCHEDULER_CONFIG:1:2: ", id="a control character"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_refused_with_the_place(
    text: str, place: str
) -> None:
    with pytest.raises(SchedulerConfigError) as refused:
        parse_scheduler_config(text)

    assert str(refused.value).startswith(place)

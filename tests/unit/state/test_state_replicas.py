"""A workload stands for the replicas that have no pod among the objects."""

from collections.abc import Mapping
from typing import Unpack

import pytest
from msgspec.structs import replace

from helpers.builders import (
    APP_T,
    NOW,
    PodOptions,
    condition,
    owner,
    pod,
    pod_template,
    pods,
    pvc,
    replica_set,
    selector,
    uid_of,
)
from karpenter.api.meta import Condition, ObjectMeta, OwnerReference, Resource
from karpenter.api.pods import Pod, Volume
from karpenter.api.storage import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
)
from karpenter.api.workloads import (
    Deployment,
    DeploymentSpec,
    Job,
    JobSpec,
    JobStatus,
    ReplicaSet,
    ReplicationController,
    ReplicationControllerSpec,
    StatefulSet,
    StatefulSetOrdinals,
    StatefulSetSpec,
)
from karpenter.model.selectors import selects
from karpenter.state.replicas import MOST_PODS, TooManyPodsError, missing_objects


def meta(name: str, namespace: str = "default") -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, uid=uid_of(name, namespace))


def deployment(name: str = "web", replicas: int = 3, **options: Unpack[PodOptions]) -> Deployment:
    options.setdefault("labels", APP_T)
    return Deployment(
        metadata=meta(name),
        spec=DeploymentSpec(
            replicas=replicas,
            selector=selector(options["labels"]),
            template=pod_template(**options),
        ),
    )


def rolled_out(of: Deployment, name: str, **options: Unpack[PodOptions]) -> ReplicaSet:
    """A ReplicaSet that a Deployment made."""
    made = replica_set(name, of.spec.replicas, **options)
    reference = owner("Deployment", of.metadata.name)
    metadata = ObjectMeta(
        name=name, namespace="default", uid=uid_of(name), owner_references=(reference,)
    )
    return ReplicaSet(metadata=metadata, spec=made.spec)


def stateful_set(
    name: str = "db",
    replicas: int = 2,
    start: int = 0,
    volumes: Mapping[str, str] | None = None,
    **options: Unpack[PodOptions],
) -> StatefulSet:
    """A StatefulSet; ``volumes`` maps their names to storage classes."""
    return StatefulSet(
        metadata=meta(name),
        spec=StatefulSetSpec(
            replicas=replicas,
            template=pod_template(**options),
            ordinals=StatefulSetOrdinals(start=start),
            volume_claim_templates=tuple(
                PersistentVolumeClaimTemplate(
                    metadata=ObjectMeta(name=volume),
                    spec=PersistentVolumeClaimSpec(storage_class_name=storage_class),
                )
                for volume, storage_class in (volumes or {}).items()
            ),
        ),
    )


def job(
    name: str = "batch",
    parallelism: int | None = None,
    completions: int | None = None,
    succeeded: int = 0,
    suspend: bool = False,
    conditions: tuple[Condition, ...] = (),
) -> Job:
    return Job(
        metadata=meta(name),
        spec=JobSpec(
            parallelism=parallelism,
            completions=completions,
            suspend=suspend,
            template=pod_template(cpu="1"),
        ),
        status=JobStatus(succeeded=succeeded, conditions=conditions),
    )


def made_pods(*objects: Resource) -> list[Pod]:
    return [each for each in missing_objects(objects) if isinstance(each, Pod)]


def names(*objects: Resource) -> list[str]:
    return [each.metadata.name for each in made_pods(*objects)]


def owned(kind: str, name: str, count: int, **options: Unpack[PodOptions]) -> list[Pod]:
    options.setdefault("labels", APP_T)
    options["owners"] = [owner(kind, name)]
    return pods(count, f"{name}-x", **options)


# ReplicaSets


def test_a_replica_set_stands_for_its_replicas() -> None:
    found = made_pods(replica_set("web", 2, cpu="1", annotations={"note": "a"}))

    assert ["web-0", "web-1"] == [each.metadata.name for each in found]
    assert {"default"} == {each.metadata.namespace for each in found}
    assert [APP_T, APP_T] == [each.metadata.labels for each in found]
    assert [{"note": "a"}] * 2 == [each.metadata.annotations for each in found]
    assert {"1"} == {each.spec.containers[0].resources.requests["cpu"] for each in found}
    (reference,) = found[0].metadata.owner_references
    expected = ("apps/v1", "ReplicaSet", "web", uid_of("web"), True)
    assert expected == (
        reference.api_version,
        reference.kind,
        reference.name,
        reference.uid,
        reference.controller,
    )


def test_no_replicas_are_no_pods() -> None:
    assert [] == missing_objects(
        [replica_set("web", 0), deployment("api", 0), stateful_set("db", 0)]
    )


@pytest.mark.parametrize(
    ("existing", "missing"),
    [
        pytest.param(owned("ReplicaSet", "web", 2), 1, id="pods it controls count"),
        pytest.param(
            owned("ReplicaSet", "web", 1, node_name="n"), 2, id="pods that run count as well"
        ),
        pytest.param(pods(2, "loose", labels=APP_T), 1, id="pods it selects that nobody controls"),
        pytest.param(pods(2, "loose", labels={"app": "x"}), 3, id="pods it does not select"),
        pytest.param(
            owned("ReplicaSet", "other", 2), 3, id="pods that another ReplicaSet controls"
        ),
        pytest.param(
            owned("ReplicaSet", "web", 2, deleted=NOW), 3, id="terminating pods are replaced"
        ),
        pytest.param(
            owned("ReplicaSet", "web", 2, phase="Failed", node_name="n"),
            3,
            id="failed pods are replaced",
        ),
        pytest.param(pods(2, "loose", labels=APP_T, namespace="x"), 3, id="of another namespace"),
        pytest.param(owned("ReplicaSet", "web", 5), 0, id="more than are wanted"),
    ],
)
def test_pods_that_exist_are_not_made_again(existing: list[Pod], missing: int) -> None:
    assert missing == len(made_pods(replica_set("web", 3), *existing))


def test_a_name_that_is_taken_is_left_out() -> None:
    taken = pod("web-1", labels={"app": "x"})

    assert ["web-0", "web-2"] == names(replica_set("web", 2), taken)


def test_a_pod_that_nobody_controls_is_adopted_once() -> None:
    made = made_pods(replica_set("a", 1), replica_set("b", 1), pod("loose", labels=APP_T))

    assert ["b-0"] == [each.metadata.name for each in made]


def test_a_replication_controller_stands_for_its_replicas() -> None:
    controller = ReplicationController(
        metadata=meta("old"),
        spec=ReplicationControllerSpec(
            replicas=2, selector=APP_T, template=pod_template(labels=APP_T)
        ),
    )

    assert ["old-0"] == names(controller, pod("loose", labels=APP_T))


# Deployments


def test_a_deployment_comes_with_the_replica_set_that_controls_its_pods() -> None:
    made = missing_objects([deployment("web", 2)])

    (controller,) = (each for each in made if isinstance(each, ReplicaSet))
    found = [each for each in made if isinstance(each, Pod)]
    assert ["web-0", "web-1"] == [each.metadata.name for each in found]
    assert ["web"] == [each.name for each in controller.metadata.owner_references]
    for each in found:
        (reference,) = each.metadata.owner_references
        assert ("ReplicaSet", controller.metadata.name) == (reference.kind, reference.name)
        assert "t" == each.metadata.labels["app"]
        assert selects(controller.spec.selector, each.metadata.labels)
    assert not selects(controller.spec.selector, APP_T)


def test_the_replica_set_follows_from_the_template() -> None:
    first, second, changed = (
        next(each for each in missing_objects([made]) if isinstance(each, ReplicaSet))
        for made in (deployment(cpu="1"), deployment(cpu="1", replicas=5), deployment(cpu="2"))
    )

    assert first.metadata.name == second.metadata.name != changed.metadata.name


def test_a_deployment_uses_the_replica_set_it_has() -> None:
    wanted = deployment("web", 3, cpu="1")
    current = rolled_out(wanted, "web-abc", cpu="1", labels={**APP_T, "pod-template-hash": "abc"})
    running = owned("ReplicaSet", "web-abc", 1, node_name="n")

    made = missing_objects([wanted, current, *running])

    assert ["Pod", "Pod"] == [each.kind for each in made]
    assert ["web-0", "web-1"] == [each.metadata.name for each in made]
    assert {"web-abc"} == {each.metadata.owner_references[0].name for each in made}
    assert {"abc"} == {each.metadata.labels["pod-template-hash"] for each in made}


def test_a_deployment_with_a_new_template_gets_a_new_replica_set_for_what_it_lacks() -> None:
    wanted = deployment("web", 3, cpu="2")
    old = rolled_out(wanted, "web-old", cpu="1")

    made = missing_objects([wanted, old, *owned("ReplicaSet", "web-old", 1)])

    assert ["ReplicaSet", "Pod", "Pod"] == [each.kind for each in made]
    assert "web-old" != made[0].metadata.name


@pytest.mark.parametrize(
    ("existing", "missing"),
    [
        pytest.param(owned("ReplicaSet", "web-5d4f", 2), 1, id="of a ReplicaSet that is absent"),
        pytest.param(
            owned("ReplicaSet", "web-api-5d4f", 2), 3, id="of another Deployment's ReplicaSet"
        ),
        pytest.param(owned("ReplicaSet", "web-5d4f", 2, labels={"app": "x"}), 3, id="not selected"),
        pytest.param(pods(2, "loose", labels=APP_T), 1, id="of nobody, but selected"),
        pytest.param(owned("ReplicaSet", "web-5d4f", 4), 0, id="more than are wanted"),
    ],
)
def test_pods_of_a_deployment_are_recognised(existing: list[Pod], missing: int) -> None:
    assert missing == len(made_pods(deployment("web", 3), *existing))


def test_a_replica_set_whose_deployment_is_absent_stands_for_itself() -> None:
    alone = rolled_out(deployment("web", 2), "web-abc")

    assert ["web-abc-0", "web-abc-1"] == names(alone)


# StatefulSets


def test_a_stateful_set_numbers_its_pods() -> None:
    found = made_pods(stateful_set("db", 2, start=5), pod("db-5"))

    assert ["db-6"] == [each.metadata.name for each in found]
    assert "db-6" == found[0].metadata.labels["statefulset.kubernetes.io/pod-name"]
    assert "6" == found[0].metadata.labels["apps.kubernetes.io/pod-index"]
    assert ["StatefulSet"] == [each.kind for each in found[0].metadata.owner_references]


def test_a_deployment_of_the_same_name_numbers_around_a_stateful_set() -> None:
    assert ["web-0", "web-1", "web-2"] == names(deployment("web", 1), stateful_set("web", 2))


def test_the_pods_of_a_stateful_set_come_with_their_claims() -> None:
    made = missing_objects([stateful_set("db", 2, volumes={"data": "fast"}), pvc("data-db-1")])

    claims = [each for each in made if isinstance(each, PersistentVolumeClaim)]
    assert ["data-db-0"] == [each.metadata.name for each in claims]
    assert ["fast"] == [each.spec.storage_class_name for each in claims]
    mounted = [
        (each.metadata.name, volume.name, volume.persistent_volume_claim.claim_name)
        for each in made
        if isinstance(each, Pod)
        for volume in each.spec.volumes
        if volume.persistent_volume_claim
    ]
    assert [("db-0", "data", "data-db-0"), ("db-1", "data", "data-db-1")] == mounted


def test_a_claim_takes_the_place_of_a_volume_of_its_name() -> None:
    described = stateful_set("db", 1, volumes={"data": "fast"})
    own = Volume(name="data"), Volume(name="scratch")
    template = pod_template()
    spec = replace(
        described.spec, template=replace(template, spec=replace(template.spec, volumes=own))
    )

    (found,) = made_pods(replace(described, spec=spec))

    assert ["scratch", "data"] == [volume.name for volume in found.spec.volumes]
    assert found.spec.volumes[-1].persistent_volume_claim is not None


# Jobs


@pytest.mark.parametrize(
    ("wish", "running", "missing"),
    [
        pytest.param(job(), 0, 1, id="one pod by default"),
        pytest.param(job(parallelism=3), 0, 3, id="a work queue"),
        pytest.param(job(parallelism=3, succeeded=1), 2, 0, id="a work queue that is empty"),
        pytest.param(job(parallelism=5, completions=8), 2, 3, id="those that run count"),
        pytest.param(job(parallelism=5, completions=8, succeeded=6), 0, 2, id="the last ones"),
        pytest.param(job(parallelism=0, completions=8), 0, 0, id="paused"),
        pytest.param(job(parallelism=2, suspend=True), 0, 0, id="suspended"),
        pytest.param(job(succeeded=1), 0, 0, id="done"),
        pytest.param(
            job(parallelism=2, completions=4, conditions=(condition("Failed"),)),
            0,
            0,
            id="given up",
        ),
        pytest.param(
            job(parallelism=2, completions=4, conditions=(condition("Failed", "False"),)),
            0,
            2,
            id="not given up",
        ),
    ],
)
def test_a_job_stands_for_the_pods_it_would_run_now(wish: Job, running: int, missing: int) -> None:
    assert missing == len(made_pods(wish, *owned("Job", "batch", running, node_name="n")))


def test_the_pods_of_a_job_carry_its_name() -> None:
    (found,) = made_pods(job("import"))

    assert "import-0" == found.metadata.name
    assert {"job-name": "import", "batch.kubernetes.io/job-name": "import"} == found.metadata.labels
    assert [("batch/v1", "Job")] == [
        (each.api_version, each.kind) for each in found.metadata.owner_references
    ]


# Limits


@pytest.mark.parametrize(
    "absurd",
    [replica_set("web", 2**31 - 1), deployment("web", 2**31 - 1), stateful_set("web", 2**31 - 1)],
    ids=lambda workload: workload.kind,
)
def test_an_absurd_number_of_replicas_is_refused(absurd: Resource) -> None:
    with pytest.raises(TooManyPodsError) as caught:
        missing_objects([absurd])

    assert (
        f"{absurd.kind} default/web asks for 2147483647 pods, which makes more than the"
        f" {MOST_PODS} a cluster can hold; ask for fewer"
    ) == str(caught.value)
    assert absurd is caught.value.workload


def test_a_negative_number_of_replicas_is_none() -> None:
    assert [] == missing_objects([replica_set("web", -1), stateful_set("db", -1)])


def test_references_of_pods_to_several_owners_count_for_the_controller_only() -> None:
    watcher = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="u")
    watched = pod("a", labels={"app": "x"}, owners=[watcher, owner("ReplicaSet", "other")])

    assert 2 == len(made_pods(replica_set("web", 2), watched))

"""Pods that workloads would create: as many as are wanted, less those that exist.

A pod belongs to the workload that controls it, or that selects it while it has no controller.
Finished and terminating pods do not count, since their workload replaces them. New pods are named
after the workload and numbered from zero; names that are taken are skipped. A StatefulSet's pods
come with their claims, and a Deployment's with the ReplicaSet that would control them.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar, cast

import msgspec

from karpenter.api.meta import ObjectMeta, OwnerReference, Resource
from karpenter.api.pods import PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume
from karpenter.api.selectors import LabelSelector
from karpenter.api.storage import PersistentVolumeClaim
from karpenter.api.workloads import (
    Deployment,
    Job,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicationController,
    StatefulSet,
)
from karpenter.model.conditions import TRUE
from karpenter.model.selectors import selects, with_values
from karpenter.state.object_keys import key_of, namespace_of, uid_of
from karpenter.state.owners import controller_of, deployment_of, named_by
from karpenter.state.pods import is_active

MOST_PODS: Final = 150_000  # the size of a cluster that Kubernetes supports
TEMPLATE_HASH: Final = "pod-template-hash"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
LEGACY_JOB_NAME: Final = "job-name"
POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"

R = TypeVar("R", bound=Resource)
_LabelSets: TypeAlias = Counter[frozenset[tuple[str, str]]]  # labels -> how many pods have them

_replace = msgspec.structs.replace
_canonical: Final = msgspec.json.Encoder(order="deterministic")


class TooManyPodsError(ValueError):
    """A workload that requests more pods than a cluster can hold."""

    def __init__(self, workload: Resource, wanted: int) -> None:
        """Name the workload and how many pods it asks for."""
        super().__init__(
            f"{workload.kind} {key_of(workload)} asks for {wanted} pods, which makes more than"
            f" the {MOST_PODS} a cluster can hold; ask for fewer"
        )
        self.workload = workload


def missing_objects(objects: Iterable[Resource]) -> list[Resource]:
    """Return the pods that the workloads among ``objects`` lack, and what comes with them.

    Raises:
        TooManyPodsError: for the workload that requests more than a cluster can hold.
    """
    found = _ByKind(objects)
    deployments = {key_of(deployment) for deployment in found.of(Deployment)}
    maker = _Maker(found, deployments)
    # StatefulSets come first: their pods have fixed names, which others must not take
    for stateful_set in found.of(StatefulSet):
        maker.number(stateful_set)
    rolled_out: dict[str, list[ReplicaSet]] = defaultdict(list)  # key of a Deployment -> its own
    for replica_set in found.of(ReplicaSet):
        owner = deployment_of(replica_set)
        if owner in deployments:
            rolled_out[owner].append(replica_set)
        else:
            maker.fill(replica_set, replica_set.spec.selector)
    for controller in found.of(ReplicationController):
        maker.fill(controller, LabelSelector(match_labels=controller.spec.selector))
    for deployment in found.of(Deployment):
        maker.roll_out(deployment, rolled_out.get(key_of(deployment), ()))
    for job in found.of(Job):
        maker.run(job)
    return maker.made


class _ByKind:
    """Objects by their kind."""

    def __init__(self, objects: Iterable[Resource]) -> None:
        self._found: dict[type[Resource], list[Resource]] = defaultdict(list)
        for each in objects:
            self._found[type(each)].append(each)

    def of(self, kind: type[R]) -> list[R]:
        """The objects of a kind, in the order of the input."""
        return cast(list[R], self._found[kind])  # sound, because each is filed under its type


class _Maker:
    """Makes pods, avoiding names that are taken and counting pods that exist."""

    def __init__(self, found: _ByKind, deployments: Container[str]) -> None:
        self.made: list[Resource] = []
        self._room = MOST_PODS
        self._taken: set[str] = set()  # keys of pods
        self._claims = {key_of(claim) for claim in found.of(PersistentVolumeClaim)}
        self._replica_sets = {key_of(each) for each in found.of(ReplicaSet)}
        self._deployments = deployments
        self._of_nobody: dict[str, _LabelSets] = defaultdict(Counter)  # by namespace
        self._controlled: Counter[tuple[str, str, str]] = Counter()  # kind, namespace, name -> pods
        self._of_absent: dict[str, _LabelSets] = defaultdict(Counter)
        # key of a Deployment -> pods of those of its ReplicaSets that are not given
        for pod in found.of(Pod):
            self._taken.add(key_of(pod))
            if is_active(pod):
                self._count(pod)

    def number(self, stateful_set: StatefulSet) -> None:
        """Make the pods that a StatefulSet lacks, and their claims."""
        spec = stateful_set.spec
        namespace = namespace_of(stateful_set)
        self._make_room(stateful_set, spec.replicas)
        for ordinal in range(spec.ordinals.start, spec.ordinals.start + spec.replicas):
            name = f"{stateful_set.metadata.name}-{ordinal}"
            if f"{namespace}/{name}" in self._taken:
                continue
            template = _labelled(spec.template, {POD_NAME: name, POD_INDEX: str(ordinal)})
            mounted = tuple(self._mounted_claims(stateful_set, name))
            self._add(stateful_set, name, _mounting(template, mounted) if mounted else template)

    def fill(
        self, workload: ReplicaSet | ReplicationController, selector: LabelSelector | None
    ) -> None:
        """Make the pods that a ReplicaSet or ReplicationController lacks."""
        existing = self._controlled_by(workload) + self._adopted(workload, selector)
        spec = workload.spec
        self._make(workload, workload, spec.template, spec.replicas - existing)

    def roll_out(self, deployment: Deployment, replica_sets: Sequence[ReplicaSet]) -> None:
        """Make the pods that a Deployment lacks, and their ReplicaSet unless there is one."""
        spec = deployment.spec
        of_absent = self._of_absent.get(key_of(deployment))
        existing = (
            self._controlled_by(deployment)
            + sum(map(self._controlled_by, replica_sets))
            + (_selected(of_absent, spec.selector) if of_absent else 0)
            + self._adopted(deployment, spec.selector)
        )
        if spec.replicas <= existing:
            return
        current = next((each for each in replica_sets if _is_current(each, deployment)), None)
        if current is None:
            current = _replica_set_of(deployment)
            self.made.append(current)
        self._make(deployment, current, current.spec.template, spec.replicas - existing)

    def run(self, job: Job) -> None:
        """Make the pods that a Job lacks to run at its parallelism."""
        spec, status = job.spec, job.status
        if spec.suspend or any(c.status == TRUE for c in status.conditions if _is_final(c.type)):
            return
        wanted = 1 if spec.parallelism is None else spec.parallelism
        if spec.completions is not None:
            wanted = min(wanted, spec.completions - status.succeeded)
        elif status.succeeded:
            return  # once a pod has succeeded, the work is done or the queue is empty
        name = job.metadata.name
        template = _labelled(spec.template, {JOB_NAME: name, LEGACY_JOB_NAME: name})
        self._make(job, job, template, wanted - self._controlled_by(job))

    def _count(self, pod: Pod) -> None:
        namespace, owner = namespace_of(pod), controller_of(pod)
        if owner is None:
            self._of_nobody[namespace][_label_set(pod)] += 1
            return
        self._controlled[owner.kind, namespace, owner.name] += 1
        named = named_by(owner, namespace, self._replica_sets)
        if named in self._deployments:
            self._of_absent[named][_label_set(pod)] += 1

    def _controlled_by(self, workload: Resource) -> int:
        key = (workload.kind, namespace_of(workload), workload.metadata.name)
        return self._controlled.get(key, 0)

    def _adopted(self, workload: Resource, selector: LabelSelector | None) -> int:
        """How many pods without a controller a workload selects; it adopts them."""
        of_nobody = self._of_nobody.get(namespace_of(workload))
        if not of_nobody:
            return 0
        adopted = [held for held in of_nobody if selects(selector, dict(held))]
        return sum(of_nobody.pop(held) for held in adopted)

    def _mounted_claims(self, stateful_set: StatefulSet, pod: str) -> Iterator[Volume]:
        for template in stateful_set.spec.volume_claim_templates:
            namespace = namespace_of(stateful_set)
            name = f"{template.metadata.name}-{pod}"
            if f"{namespace}/{name}" not in self._claims:
                metadata = _replace(template.metadata, name=name, namespace=namespace)
                self.made.append(PersistentVolumeClaim(metadata=metadata, spec=template.spec))
            source = PersistentVolumeClaimVolumeSource(claim_name=name)
            yield Volume(name=template.metadata.name, persistent_volume_claim=source)

    def _make(
        self, workload: Resource, controller: Resource, template: PodTemplateSpec, count: int
    ) -> None:
        self._make_room(workload, count)
        number = 0
        for _ in range(count):
            while f"{key_of(workload)}-{number}" in self._taken:
                number += 1
            self._add(controller, f"{workload.metadata.name}-{number}", template)

    def _make_room(self, workload: Resource, count: int) -> None:
        self._room -= max(0, count)
        if self._room < 0:
            raise TooManyPodsError(workload, count)

    def _add(self, controller: Resource, name: str, template: PodTemplateSpec) -> None:
        namespace = namespace_of(controller)
        self._taken.add(f"{namespace}/{name}")
        self.made.append(
            Pod(
                metadata=ObjectMeta(
                    name=name,
                    namespace=namespace,
                    labels=template.metadata.labels,
                    annotations=template.metadata.annotations,
                    owner_references=(_controlled_through(controller),),
                ),
                spec=template.spec,
            )
        )


def _label_set(pod: Pod) -> frozenset[tuple[str, str]]:
    return frozenset(pod.metadata.labels.items())


def _is_current(replica_set: ReplicaSet, deployment: Deployment) -> bool:
    """Whether a ReplicaSet was made from the Deployment's present template."""
    template = replica_set.spec.template
    labels = {k: v for k, v in template.metadata.labels.items() if k != TEMPLATE_HASH}
    metadata = _replace(template.metadata, labels=labels)
    return _replace(template, metadata=metadata) == deployment.spec.template


def _replica_set_of(deployment: Deployment) -> ReplicaSet:
    spec = deployment.spec
    digest = hashlib.sha256(_canonical.encode(spec.template)).hexdigest()[:10]
    revision = {TEMPLATE_HASH: digest}
    return ReplicaSet(
        metadata=ObjectMeta(
            name=f"{deployment.metadata.name}-{digest}",
            namespace=namespace_of(deployment),
            labels={**spec.template.metadata.labels, **revision},
            owner_references=(_controlled_through(deployment),),
        ),
        spec=ReplicaSetSpec(
            replicas=spec.replicas,
            selector=with_values(spec.selector, revision),
            template=_labelled(spec.template, revision),
        ),
    )


def _is_final(condition: str) -> bool:
    return condition in ("Complete", "Failed")


def _selected(pods: _LabelSets, selector: LabelSelector | None) -> int:
    return sum(count for held, count in pods.items() if selects(selector, dict(held)))


def _labelled(template: PodTemplateSpec, labels: Mapping[str, str]) -> PodTemplateSpec:
    held = {**template.metadata.labels, **labels}
    return _replace(template, metadata=_replace(template.metadata, labels=held))


def _mounting(template: PodTemplateSpec, volumes: tuple[Volume, ...]) -> PodTemplateSpec:
    """The template with these volumes, in place of any that have the same names."""
    names = {volume.name for volume in volumes}
    kept = (volume for volume in template.spec.volumes if volume.name not in names)
    return _replace(template, spec=_replace(template.spec, volumes=(*kept, *volumes)))


def _controlled_through(controller: Resource) -> OwnerReference:
    return OwnerReference(
        api_version=controller.api_version,
        kind=controller.kind,
        name=controller.metadata.name,
        uid=uid_of(controller),
        controller=True,
        block_owner_deletion=True,
    )

"""The controllers that create pods, and how many they want."""

from collections.abc import Mapping
from typing import ClassVar, TypeAlias

from karpenter.api.meta import Condition, Model, ObjectMeta, Resource
from karpenter.api.pods import PodTemplateSpec
from karpenter.api.selectors import LabelSelector
from karpenter.api.storage import PersistentVolumeClaimTemplate


class ReplicaStatus(Model, frozen=True):
    """What Deployments, ReplicaSets, StatefulSets and ReplicationControllers all report."""

    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0


class DeploymentSpec(Model, frozen=True):
    replicas: int = 1
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    paused: bool = False


class Deployment(Resource, frozen=True):
    api_version: ClassVar[str] = "apps/v1"

    spec: DeploymentSpec = DeploymentSpec()
    status: ReplicaStatus = ReplicaStatus()


class ReplicaSetSpec(Model, frozen=True):
    replicas: int = 1
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSet(Resource, frozen=True):
    api_version: ClassVar[str] = "apps/v1"

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaStatus = ReplicaStatus()


class ReplicationControllerSpec(Model, frozen=True):
    """It predates label selectors: its selector is a map of equal labels."""

    replicas: int = 1
    selector: Mapping[str, str] = {}
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicationController(Resource, frozen=True):
    api_version: ClassVar[str] = "v1"

    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicaStatus = ReplicaStatus()


class StatefulSetOrdinals(Model, frozen=True):
    start: int = 0


class StatefulSetSpec(Model, frozen=True):
    replicas: int = 1
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    service_name: str = ""
    ordinals: StatefulSetOrdinals = StatefulSetOrdinals()
    volume_claim_templates: tuple[PersistentVolumeClaimTemplate, ...] = ()


class StatefulSet(Resource, frozen=True):
    api_version: ClassVar[str] = "apps/v1"

    spec: StatefulSetSpec = StatefulSetSpec()
    status: ReplicaStatus = ReplicaStatus()


class DaemonSetSpec(Model, frozen=True):
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class DaemonSetStatus(Model, frozen=True):
    desired_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0


class DaemonSet(Resource, frozen=True):
    api_version: ClassVar[str] = "apps/v1"

    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class JobSpec(Model, frozen=True):
    """``completions`` is None for a work queue, which is done once one pod has succeeded."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    template: PodTemplateSpec = PodTemplateSpec()


class JobStatus(Model, frozen=True):
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: tuple[Condition, ...] = ()


class Job(Resource, frozen=True):
    api_version: ClassVar[str] = "batch/v1"

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplateSpec(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(Model, frozen=True):
    schedule: str = ""
    time_zone: str = ""
    suspend: bool = False
    job_template: JobTemplateSpec = JobTemplateSpec()


class CronJob(Resource, frozen=True):
    api_version: ClassVar[str] = "batch/v1"

    spec: CronJobSpec = CronJobSpec()


# The kinds with a template of the pods they create; a CronJob creates Jobs
TemplatedWorkload: TypeAlias = (
    DaemonSet | Deployment | Job | ReplicaSet | ReplicationController | StatefulSet
)

"""Rules that bound what may happen to pods: disruption budgets, priorities, default sizes."""

from typing import ClassVar

from karpenter.api.meta import Condition, IntOrString, Model, Resource, ResourceMap
from karpenter.api.selectors import LabelSelector


class PodDisruptionBudgetSpec(Model, frozen=True):
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""


class PodDisruptionBudgetStatus(Model, frozen=True):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Resource, frozen=True):
    api_version: ClassVar[str] = "policy/v1"

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(Resource, frozen=True):
    api_version: ClassVar[str] = "scheduling.k8s.io/v1"
    namespaced: ClassVar[bool] = False

    value: int = 0
    global_default: bool = False


class LimitRangeItem(Model, frozen=True):
    type: str = ""
    default: ResourceMap = {}
    default_request: ResourceMap = {}
    max: ResourceMap = {}
    min: ResourceMap = {}


class LimitRangeSpec(Model, frozen=True):
    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(Resource, frozen=True):
    api_version: ClassVar[str] = "v1"

    spec: LimitRangeSpec = LimitRangeSpec()

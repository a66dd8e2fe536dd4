"""The alpha kinds: Provisioner (v1alpha5) and AWSNodeTemplate (v1alpha1)."""

from collections.abc import Mapping
from typing import Any, ClassVar

from karpenter.api.karpenter import KubeletConfiguration
from karpenter.api.meta import Condition, Model, Resource, ResourceMap, Time
from karpenter.api.node_classes.ec2 import (
    AMIStatus,
    BlockDeviceMapping,
    MetadataOptions,
    SecurityGroupStatus,
    SubnetStatus,
)
from karpenter.api.nodes import Taint
from karpenter.api.selectors import NodeSelectorRequirement


class ProviderReference(Model, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class ProvisionerLimits(Model, frozen=True):
    resources: ResourceMap = {}


class Consolidation(Model, frozen=True):
    enabled: bool | None = None


class ProvisionerKubeletConfiguration(KubeletConfiguration, frozen=True):
    container_runtime: str | None = None


class ProvisionerSpec(Model, frozen=True):
    """``provider`` is free text to Kubernetes: the AWS fields of a node template, inline."""

    annotations: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    requirements: tuple[NodeSelectorRequirement, ...] = ()
    kubelet_configuration: ProvisionerKubeletConfiguration | None = None
    provider: Mapping[str, Any] | None = None
    provider_ref: ProviderReference | None = None
    ttl_seconds_after_empty: int | None = None
    ttl_seconds_until_expired: int | None = None
    limits: ProvisionerLimits | None = None
    consolidation: Consolidation | None = None
    weight: int | None = None


class ProvisionerStatus(Model, frozen=True):
    resources: ResourceMap = {}
    last_scale_time: Time | None = None
    conditions: tuple[Condition, ...] = ()


class Provisioner(Resource, frozen=True):
    api_version: ClassVar[str] = "karpenter.sh/v1alpha5"
    namespaced: ClassVar[bool] = False

    spec: ProvisionerSpec = ProvisionerSpec()
    status: ProvisionerStatus = ProvisionerStatus()


class AWSNodeTemplateSpec(Model, frozen=True):
    """Selectors are tags, except for keys with their own meaning (``aws-ids``, ``aws::ids``)."""

    subnet_selector: Mapping[str, str] = {}
    security_group_selector: Mapping[str, str] = {}
    ami_selector: Mapping[str, str] = {}
    ami_family: str | None = None
    user_data: str | None = None
    tags: Mapping[str, str] = {}
    instance_profile: str | None = None
    launch_template: str | None = None
    block_device_mappings: tuple[BlockDeviceMapping, ...] = ()
    metadata_options: MetadataOptions | None = None
    detailed_monitoring: bool | None = None
    context: str | None = None


class AWSNodeTemplateStatus(Model, frozen=True):
    subnets: tuple[SubnetStatus, ...] = ()
    security_groups: tuple[SecurityGroupStatus, ...] = ()
    amis: tuple[AMIStatus, ...] = ()


class AWSNodeTemplate(Resource, frozen=True):
    api_version: ClassVar[str] = "karpenter.k8s.aws/v1alpha1"
    namespaced: ClassVar[bool] = False

    spec: AWSNodeTemplateSpec = AWSNodeTemplateSpec()
    status: AWSNodeTemplateStatus = AWSNodeTemplateStatus()

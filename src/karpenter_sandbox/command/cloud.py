"""Validates the cloud options of a sandbox before it starts."""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from karpenter.admission.legacy.webhook import Profile
from karpenter.cloud.kwok import catalogue
from karpenter.cloud.kwok.entries import CatalogueError
from karpenter.cloud.registry import ProviderError, load_provider
from karpenter.cloud.types import InstanceType
from karpenter.console import output
from karpenter.os_errors import os_reason
from karpenter.scheduling.inputs.scheduler_config import (
    SchedulerConfigError,
    parse_scheduler_config,
)
from karpenter.settings import SettingError, Settings, from_environment
from karpenter_sandbox.initial_objects import NodeShape

_KWOK: Final = "kwok"
AWS: Final = "aws"
# An instance type of the simulated provider's catalogue, so that the display finds its price
_NODES: Final = NodeShape(instance_type="s-4x-amd64-linux")


@dataclass(frozen=True, slots=True)
class Account:
    """How the simulated account of AWS looks."""

    cluster_name: str = "sandbox"
    region: str = "us-west-2"
    node_role: str = "KarpenterNodeRole"
    discovery: str = ""  # the discovery tag of subnets and groups; empty: the cluster's name


@dataclass(frozen=True, slots=True)
class CloudOptions:
    """Which cloud the controllers of a sandbox launch machines in."""

    provider: str = ""  # none: there are no controllers
    instance_types: str = ""  # a file in place of the provider's own catalogue
    account: Account = field(default_factory=Account)
    has_example: bool = False


def check_cloud(options: CloudOptions) -> None:
    """End the command with one sentence where the controllers could not begin."""
    usable_settings(options)
    if options.instance_types:
        _listed(options.instance_types)
    if options.provider == AWS:
        _check_aws(options.account)
    elif options.provider != _KWOK:
        try:
            load_provider(options.provider)
        except ProviderError as error:
            output.fail(str(error))


def _check_aws(account: Account) -> None:
    from karpenter.cloud.aws.simulated.account import SimulationMissingError, check_simulation

    try:
        check_simulation(account.region)
    except SimulationMissingError as error:
        output.fail(str(error))


def usable_settings(options: CloudOptions) -> Settings:
    """The settings of the environment, without leader election.

    Provisioners that name neither a role nor images get those that the simulated account has.
    """
    try:
        settings = from_environment(os.environ)
        parse_scheduler_config(settings.scheduler_config)
    except (SettingError, SchedulerConfigError) as error:
        output.fail(str(error))
    settings = replace(settings, disable_leader_election=True)
    if options.provider != AWS:
        return settings
    has_identity = settings.legacy_node_role or settings.legacy_instance_profile
    return replace(
        settings,
        legacy_node_role=settings.legacy_node_role if has_identity else options.account.node_role,
        legacy_ami_family=settings.legacy_ami_family or "AL2023",
    )


def legacy_defaults(settings: Settings) -> Profile:
    """Whose defaults the webhook of the alpha kinds fills in."""
    return "early" if settings.legacy_defaults == "early" else "late"


def first_nodes(options: CloudOptions) -> NodeShape:
    """The shape of a sandbox's initial nodes.

    They are in zones where the cloud sells machines: in any other zone, topology spread constraints
    would require nodes that the cloud cannot launch.
    """
    if options.provider == AWS:
        from karpenter.cloud.aws.simulated.account import simulated_zones

        region = options.account.region
        return NodeShape("m5.xlarge", region=region, zones=simulated_zones(region))
    types = _listed(options.instance_types) if options.instance_types else catalogue.built_in()
    sold_in = sorted({offering.zone for kind in types for offering in kind.offerings})
    return replace(_NODES, zones=tuple(sold_in)) if sold_in else _NODES


def _listed(file: str) -> tuple[InstanceType, ...]:
    try:
        return catalogue.load(Path(file).read_bytes(), file)
    except CatalogueError as error:
        output.fail(str(error))
    except OSError as error:
        output.fail(f"{file}: {os_reason(error)}")

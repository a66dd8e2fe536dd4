"""What a sandbox settles about its cloud before anything is up: can it be had, and where is it?"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from karpenter.cli import output
from karpenter.cloud.kwok import catalogue
from karpenter.cloud.kwok.entries import CatalogueError
from karpenter.cloud.registry import ProviderError, load_provider
from karpenter.cloud.types import InstanceType
from karpenter.os_errors import os_reason
from karpenter.sandbox.seeds import NodeShape
from karpenter.scheduling.scheduler_config import SchedulerConfigError, parse_scheduler_config
from karpenter.settings import SettingError, Settings, from_environment

_KWOK: Final = "kwok"
_AWS: Final = "aws"
# A machine of the simulated provider, so that it has a price
_NODES: Final = NodeShape(instance_type="s-4x-amd64-linux")


def check_cloud(provider: str, instance_types: str) -> None:
    """End the command with one sentence where the controllers could not begin."""
    usable_settings()
    if instance_types:
        _listed(instance_types)
    if provider not in (_KWOK, _AWS):
        try:
            load_provider(provider)
        except ProviderError as error:
            output.fail(str(error))


def usable_settings() -> Settings:
    """The settings of the environment, for controllers that have no rivals."""
    try:
        settings = from_environment(os.environ)
        parse_scheduler_config(settings.scheduler_config)
    except (SettingError, SchedulerConfigError) as error:
        output.fail(str(error))
    return replace(settings, disable_leader_election=True)


def first_nodes(provider: str, instance_types: str) -> NodeShape:
    """How the nodes look that a sandbox begins with.

    They stand where the cloud sells machines: in a zone of their own, pods that spread over zones
    would want company that nobody can launch.
    """
    if provider == _AWS:
        from karpenter.cloud.aws.simulated.account import REGION

        zones = tuple(f"{REGION}{letter}" for letter in "abc")
        return NodeShape(instance_type="m5.xlarge", region=REGION, zones=zones)
    types = _listed(instance_types) if instance_types else catalogue.built_in()
    sold_in = sorted({offering.zone for kind in types for offering in kind.offerings})
    return replace(_NODES, zones=tuple(sold_in)) if sold_in else _NODES


def _listed(file: str) -> tuple[InstanceType, ...]:
    try:
        return catalogue.load(Path(file).read_bytes(), file)
    except CatalogueError as error:
        output.fail(str(error))
    except OSError as error:
        output.fail(f"{file}: {os_reason(error)}")

"""The Kubernetes version of the cluster, which images are chosen by."""

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

import structlog

from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.network.cluster import describe_cluster
from karpenter.cloud.aws.settings import AwsSettings
from karpenter.cloud.provider import CloudError
from karpenter.kube.client import Kube

REFRESH: Final = timedelta(minutes=5)
OLDEST: Final = (1, 26)
NEWEST: Final = (1, 36)
_SHAPE: Final = re.compile(r"v?([0-9]+)\.([0-9]+)\+?(?:\..*)?")

VersionSource = Callable[[], Awaitable[str]]


class UnknownVersionError(CloudError):
    """A version that cannot be read; the text is one sentence."""


class KubernetesVersion:
    """The minor version of the cluster, as it was last read."""

    def __init__(self, source: VersionSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._known = ""
        self._read_at = 0.0
        self._log = structlog.get_logger("karpenter.aws.version")

    async def get(self) -> str:
        """The version, such as ``1.31``; read again once it expires."""
        age = self._clock.monotonic() - self._read_at
        if not self._known or age >= REFRESH.total_seconds():
            await self.refresh()
        return self._known

    async def refresh(self) -> None:
        """Read the version."""
        version = minor_version(await self._source())
        self._read_at = self._clock.monotonic()
        if version == self._known:
            return
        self._known = version
        self._log.debug("discovered kubernetes version", version=version)
        if not OLDEST <= as_numbers(version) <= NEWEST:
            self._log.error("kubernetes version is not supported", version=version)


def version_source(kube: Kube, calls: Calls, settings: AwsSettings) -> VersionSource:
    """The source of the version: EKS with the setting EKS_CONTROL_PLANE, else the API server."""
    if settings.eks_control_plane:
        return eks_version(calls, settings.cluster_name)
    return kube.version


def eks_version(calls: Calls, cluster: str) -> VersionSource:
    """Read the version from EKS."""

    async def read() -> str:
        return (await describe_cluster(calls, cluster)).version

    return read


def minor_version(text: str) -> str:
    """``v1.31.2``, ``1.31+`` and ``1.31`` are all ``1.31``.

    Raises:
        UnknownVersionError: the text is no version.
    """
    found = _SHAPE.fullmatch(text.strip())
    if found is None:
        raise UnknownVersionError(f"{text!r} is not a Kubernetes version such as 1.31")
    return f"{found[1]}.{found[2]}"


def as_numbers(version: str) -> tuple[int, int]:
    """A minor version as numbers that can be compared."""
    major, _, minor = version.partition(".")
    return int(major), int(minor)

"""Instance profiles: what carries a node class's role to its instances.

A class that names a profile is left to it. For a class that names a role a profile is made, under a
path that says whose it is, and a new one whenever the role changes: instances keep the profile they
were launched with, so an old one lives on until nothing names it any more.
"""

import random
import re
import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from karpenter.api.ec2 import EC2NodeClass
from karpenter.clock import Clock
from karpenter.cloud.aws.cache import TtlCache
from karpenter.cloud.aws.calls import Calls
from karpenter.cloud.aws.errors import AwsAlreadyExistsError, AwsError, AwsNotFoundError
from karpenter.cloud.aws.tags import cluster_tag, tag_list
from karpenter.model import labels
from karpenter.model.hashstructure import fnv1_64

GARBAGE_COLLECTION: Final = timedelta(minutes=30)
_LOOKUP_LIFETIME: Final = timedelta(minutes=15)
_ROLE_MISSING_LIFETIME: Final = timedelta(minutes=1)
_RECREATED_LIFETIME: Final = timedelta(minutes=1)
_PROTECTED_LIFETIME: Final = timedelta(hours=1)
_FULL: Final = "LimitExceeded"  # a profile holds one role
_LEGAL_NAME: Final = re.compile(r"[\w+=,.@-]{1,128}", re.ASCII)


class InstanceProfiles:
    """The instance profiles of a cluster."""

    def __init__(self, calls: Calls, clock: Clock, rng: random.Random, cluster: str) -> None:
        self._calls = calls
        self._rng = rng
        self._cluster = cluster
        self._roles: TtlCache[str, str] = TtlCache(clock, _LOOKUP_LIFETIME.total_seconds())
        self._missing: TtlCache[str, AwsError] = TtlCache(
            clock, _ROLE_MISSING_LIFETIME.total_seconds()
        )
        self._recreated: TtlCache[str, str] = TtlCache(clock, _RECREATED_LIFETIME.total_seconds())
        self._protected: TtlCache[str, bool] = TtlCache(clock, _PROTECTED_LIFETIME.total_seconds())

    async def ensure(self, node_class: EC2NodeClass) -> str:
        """The profile of a node class; one that fits is made if there is none.

        Raises:
            AwsError: IAM refuses, or its role does not exist.
        """
        spec = node_class.spec
        if spec.instance_profile:
            return spec.instance_profile
        current = node_class.status.instance_profile
        uid, role = node_class.metadata.uid, _role_name(spec.role)
        # The status may be older than what was made a moment ago
        just_made = self._recreated.get(uid)
        for name in filter(None, (current, just_made)):
            if await self._role_of(name) == role:
                return name
        missing = self._missing.get(role)
        if missing is not None:
            raise missing
        made = await self._make(node_class, role)
        self._recreated.put(uid, made)
        for name in filter(None, (current, made)):
            self._protected.put(name, True)
        return made

    async def delete_all(self, node_class: EC2NodeClass) -> None:
        """Delete every profile made for a node class, the one of old releases included."""
        for name in await self._names(self._path(node_class.metadata.uid)):
            await self.delete(name)
        legacy = legacy_name(self._cluster, self._calls.region, node_class.metadata.name)
        if _LEGAL_NAME.fullmatch(legacy):
            await self.delete(legacy)

    async def collect_garbage(self, named: Collection[str]) -> tuple[str, ...]:
        """Delete the profiles of this cluster that nothing needs, and return their names.

        Args:
            named: the profiles that node classes and claims name.
        """
        prefix = f"/karpenter/{self._calls.region}/{self._cluster}/"
        deleted = []
        for name in await self._names(prefix):
            if name not in named and name not in self._protected:
                await self.delete(name)
                deleted.append(name)
        return tuple(deleted)

    async def delete(self, name: str) -> None:
        """Detach the role of a profile and delete it; one that is gone is fine."""
        self._roles.drop(name)
        try:
            profile = await self._get(name)
            for role in profile.get("Roles", ()):
                await self._detach(name, role["RoleName"])
            await self._calls.call("iam", "DeleteInstanceProfile", InstanceProfileName=name)
        except AwsNotFoundError:
            return

    async def _make(self, node_class: EC2NodeClass, role: str) -> str:
        name = self._new_name(node_class.metadata.name)
        tags = {
            **node_class.spec.tags,
            cluster_tag(self._cluster): "owned",
            labels.EKS_CLUSTER_NAME_TAG: self._cluster,
            labels.EC2_NODE_CLASS: node_class.metadata.name,
            labels.REGION: self._calls.region,
        }
        # nobody else comes upon this name: it exists if the answer to an attempt was lost
        with suppress(AwsAlreadyExistsError):
            await self._calls.call(
                "iam",
                "CreateInstanceProfile",
                InstanceProfileName=name,
                Path=self._path(node_class.metadata.uid),
                Tags=tag_list(tags),
            )
        try:
            await self._attach(name, role)
        except AwsError as error:
            if isinstance(error, AwsNotFoundError) and "role" in error.message.lower():
                self._missing.put(role, error)
            await self._delete_quietly(name)
            raise
        self._roles.put(name, role)
        return name

    async def _attach(self, name: str, role: str) -> None:
        try:
            await self._calls.call(
                "iam", "AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=role
            )
        except AwsError as error:
            # full already, which is well if it is full of this role
            if error.code != _FULL or await self._role_of(name) != role:
                raise

    async def _delete_quietly(self, name: str) -> None:
        try:
            await self.delete(name)
        except AwsError:
            return  # garbage collection comes by later

    async def _role_of(self, name: str) -> str | None:
        known = self._roles.get(name)
        if known is not None:
            return known
        try:
            roles = (await self._get(name)).get("Roles", ())
        except AwsNotFoundError:
            return None
        return self._roles.put(name, roles[0]["RoleName"]) if roles else None

    async def _get(self, name: str) -> Mapping[str, Any]:
        answer = await self._calls.call("iam", "GetInstanceProfile", InstanceProfileName=name)
        profile: Mapping[str, Any] = answer["InstanceProfile"]
        return profile

    async def _detach(self, name: str, role: str) -> None:
        try:
            await self._calls.call(
                "iam", "RemoveRoleFromInstanceProfile", InstanceProfileName=name, RoleName=role
            )
        except AwsNotFoundError:
            return

    async def _names(self, prefix: str) -> list[str]:
        found = await self._calls.pages(
            "iam", "ListInstanceProfiles", "InstanceProfiles", PathPrefix=prefix
        )
        return [e["InstanceProfileName"] for e in found if e.get("Path", "").startswith(prefix)]

    def _path(self, uid: str) -> str:
        return f"/karpenter/{self._calls.region}/{self._cluster}/{uid}/"

    def _new_name(self, class_name: str) -> str:
        unique = uuid.UUID(int=self._rng.getrandbits(128), version=4)
        return f"{self._cluster}_{fnv1_64(f'{self._calls.region}{class_name}{unique}'.encode())}"


def legacy_name(cluster: str, region: str, class_name: str) -> str:
    """The profile that old releases made for a class, which is only ever deleted."""
    return f"{cluster}_{fnv1_64(f'{region}{class_name}'.encode())}"


def _role_name(role: str) -> str:
    """The name of a role without its path, which is what IAM's answers have."""
    return role.rpartition("/")[2]

"""Instance profiles: what carries a node class's role to its instances.

A class that names a profile uses it unchanged. For a class that names a role a profile is created,
under a path that identifies its owner, and a new one whenever the role changes: instances keep the
profile they were launched with, so an old one lives on until nothing names it any more.
"""

import random
import re
import uuid
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.cache import TtlCache
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.errors import (
    AwsAlreadyExistsError,
    AwsError,
    AwsNotFoundError,
    AwsUnauthorizedError,
)
from karpenter.cloud.aws.ec2.tags import cluster_tag, tag_list
from karpenter.model import labels
from karpenter.model.hashstructure import fnv1_64

GARBAGE_COLLECTION: Final = timedelta(minutes=30)
_LOOKUP_LIFETIME: Final = timedelta(minutes=15)
_ROLE_MISSING_LIFETIME: Final = timedelta(minutes=1)
_RECREATED_LIFETIME: Final = timedelta(minutes=1)
_PROTECTED_LIFETIME: Final = timedelta(hours=1)
_FULL: Final = "LimitExceeded"  # a profile holds one role
_LEGAL_NAME: Final = re.compile(r"[\w+=,.@-]{1,128}", re.ASCII)


class RoleMissingError(AwsNotFoundError):
    """The role that a node class names does not exist; the text says what to do."""

    def __init__(self, role: str, error: AwsNotFoundError) -> None:
        super().__init__(error.code, error.message, error.operation, error.http_status)
        self.role = role

    def __str__(self) -> str:
        return f"the role {self.role} does not exist; create it, or name another in spec.role"


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
            RoleMissingError: its role does not exist.
            AwsError: IAM refuses.
        """
        spec = node_class.spec
        if spec.instance_profile:
            return spec.instance_profile
        current = node_class.status.instance_profile
        uid, role = node_class.metadata.uid, _role_name(spec.role)
        # The status may be older than a profile that was just created
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

    async def delete_all(self, node_class: EC2NodeClass) -> str:
        """Delete every profile made for a node class, the one of old releases included.

        Where profiles may not be listed, those that are known by name are deleted.

        Returns:
            What may have been left behind, in one sentence; nothing if all were found.

        Raises:
            AwsError: one of them could not be deleted; the others have been.
        """
        left = ""
        try:
            names = await self._names(self._path(node_class.metadata.uid))
        except AwsUnauthorizedError as error:
            names = await self._known_names(node_class)
            left = (
                "instance profiles of earlier roles may be left behind: the controller may not list"
                f" them; grant it iam:ListInstanceProfiles ({error})"
            )
        legacy = legacy_name(self._cluster, self._calls.region, node_class.metadata.name)
        if _LEGAL_NAME.fullmatch(legacy):
            names.append(legacy)
        await self._delete_each(names)
        return left

    async def collect_garbage(self, named: Collection[str]) -> tuple[str, ...]:
        """Delete the profiles of this cluster that nothing needs, and return their names.

        Args:
            named: the profiles that node classes and claims name.

        Raises:
            AwsError: one of them could not be deleted; the others have been.
        """
        prefix = f"/karpenter/{self._calls.region}/{self._cluster}/"
        found = await self._names(prefix)
        garbage = [each for each in found if each not in named and each not in self._protected]
        await self._delete_each(garbage)
        return tuple(garbage)

    async def _delete_each(self, names: Iterable[str]) -> None:
        failure: AwsError | None = None
        for name in names:
            try:
                await self.delete(name)
            except AwsError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    async def _known_names(self, node_class: EC2NodeClass) -> list[str]:
        """The profiles of a class that this process has made or that its status names."""
        uid = node_class.metadata.uid
        remembered = [name for name, _ in self._protected.items()]
        candidates = (node_class.status.instance_profile, self._recreated.get(uid), *remembered)
        found = []
        for name in dict.fromkeys(filter(None, candidates)):
            try:
                profile = await self._get(name)
            except AwsNotFoundError:
                continue
            # A profile under another path belongs to the user; the class only named it
            if profile.get("Path") == self._path(uid):
                found.append(name)
        return found

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
            ec2_labels.EKS_CLUSTER_NAME_TAG: self._cluster,
            ec2_labels.NODE_CLASS: node_class.metadata.name,
            labels.REGION: self._calls.region,
        }
        # the name is unique: if it exists, the answer to an earlier attempt was lost
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
            await self._delete_quietly(name)
            if isinstance(error, AwsNotFoundError) and "role" in error.message.lower():
                missing = RoleMissingError(role, error)
                self._missing.put(role, missing)
                raise missing from error
            raise
        self._roles.put(name, role)
        return name

    async def _attach(self, name: str, role: str) -> None:
        try:
            await self._calls.call(
                "iam", "AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=role
            )
        except AwsError as error:
            # the profile has a role already, which is fine if it is this one
            if error.code != _FULL or await self._role_of(name) != role:
                raise

    async def _delete_quietly(self, name: str) -> None:
        try:
            await self.delete(name)
        except AwsError:
            return  # garbage collection deletes it later

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

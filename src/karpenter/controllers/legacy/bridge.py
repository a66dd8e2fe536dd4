"""The bridge: a NodePool for each Provisioner, a node class for each AWSNodeTemplate.

The legacy object owns what the bridge creates: it is updated in place, never recreated, which would
replace its nodes, and the API server's garbage collector removes it with its owner. An object of
the same name that the bridge does not own is left unchanged, and the legacy object's status says
so.
"""

import asyncio
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from karpenter.api.codec import convert_as, model_for, to_plain
from karpenter.api.karpenter import NodePool
from karpenter.api.legacy import AWSNodeTemplate, Provisioner
from karpenter.api.meta import JsonObject, Resource
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.legacy.translation import (
    AWS,
    CONVERSION_FAILED,
    DEFAULT_CLASS,
    Translation,
    translate,
)
from karpenter.controllers.node_pools.managed import node_class_mirrors
from karpenter.conversion.convert import Options
from karpenter.conversion.values import compact_json, section
from karpenter.kube.errors import (
    AlreadyExistsError,
    BadRequestError,
    ForbiddenError,
    InvalidError,
)
from karpenter.kube.events import WARNING, Event
from karpenter.model import labels
from karpenter.model.conditions import AMIS_READY, FALSE, READY, TRUE, find, to_wire, with_condition
from karpenter.settings import Settings

ACTIVE: Final = "Active"
NAME_TAKEN: Final = "NameTaken"
NODE_CLASS_NOT_FOUND: Final = "NodeClassNotFound"
NODE_CLASS_NOT_READY: Final = "NodeClassNotReady"

_ALL: Final = ("", "")  # one key: legacy objects refer to each other and are translated together
_AGAIN: Final = 60.0
_NO_FAMILY: Final = "; it names no amiFamily, which stands for AL2: LEGACY_AMI_FAMILY sets another"


class BridgeController(Controller):
    """Keeps the v1 objects of legacy objects up to date."""

    name = "legacy.bridge"
    workers = 1

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._options = _options(context.settings)
        self._pools = context.mirror(NodePool)
        self._owned = [self._pools, *node_class_mirrors(context)]
        self._may_share_classes = context.cloud.facts.name != AWS
        self._translated: tuple[Hashable, list[Translation]] | None = None
        self._warned: set[str] = set()
        for kind in (Provisioner, AWSNodeTemplate):
            self.follow(context.mirror(kind), lambda _: (_ALL,))
        for mirror in self._owned:
            self.follow(mirror, lambda _: (_ALL,))

    async def reconcile(self, key: object) -> float | None:
        legacy = self._legacy()
        if not legacy:
            return None
        translations = await self._translations(legacy)
        for translation in translations:
            try:
                await self._honour(translation, translations)
            except (BadRequestError, ForbiddenError, InvalidError) as error:
                # The other legacy objects must still be translated
                why = f"the API server refused what it stands for: {error}"
                await self._report(translation.owner, CONVERSION_FAILED, why)
        await self._remove_leftovers(translations)
        return _AGAIN

    def _legacy(self) -> list[Resource]:
        found: list[Resource] = [
            *self.context.mirror(AWSNodeTemplate).list(),
            *self.context.mirror(Provisioner).list(),
        ]
        staying = [each for each in found if each.metadata.deletion_timestamp is None]
        return sorted(staying, key=lambda each: (each.kind, each.metadata.name))

    async def _translations(self, legacy: list[Resource]) -> list[Translation]:
        """Translate, unless nothing has changed but a status."""
        kept = self._kept_kubelets(legacy)
        versions = tuple(
            (
                each.metadata.uid,
                each.metadata.generation,
                frozenset(each.metadata.labels.items()),
                frozenset(each.metadata.annotations.items()),
            )
            for each in legacy
        )
        key = versions, compact_json(kept)
        if self._translated is None or self._translated[0] != key:
            facts = self.context.cloud.facts
            options = replace(self._options, kept_kubelets=kept)
            made = await asyncio.to_thread(translate, legacy, facts, options)
            self._translated = key, made
        return self._translated[1]

    def _kept_kubelets(self, legacy: Iterable[Resource]) -> dict[str, JsonObject]:
        """The kubelet settings to keep, by node class, because other pools still use the class.

        Only a Provisioner has such settings; its template does not. The pool of a deleted
        Provisioner outlives it while its nodes drain or, if orphaned, for good; removing the
        settings from the class would make these nodes drift.
        """
        staying = {each.metadata.uid for each in legacy}
        used = {
            pool.spec.template.spec.node_class_ref.name
            for pool in self._pools.list()
            if staying.isdisjoint(owner.uid for owner in pool.metadata.owner_references)
        }
        return {
            found.metadata.name: dict(found.spec.kubelet)
            for mirror in self._owned
            for found in mirror.list()
            if isinstance(found, EC2NodeClass)
            and found.spec.kubelet
            and found.metadata.name in used
        }

    async def _honour(self, translation: Translation, others: list[Translation]) -> None:
        owner = translation.owner
        self._warn(translation)
        if translation.problem:
            await self._report(owner, translation.reason, translation.problem)
            return
        taken = [each for each in translation.objects if not await self._ensure(owner, each)]
        if taken:
            names = " and ".join(f"{each['kind']} {each['metadata']['name']}" for each in taken)
            why = f"{names} was not made from it and is left alone; rename one of the two"
            await self._report(owner, NAME_TAKEN, why)
            return
        await self._report(owner, *self._class_problem(translation, others))

    def _class_problem(self, of: Translation, others: list[Translation]) -> tuple[str, str]:
        """Why the class of a Provisioner gives it no nodes, as reason and message."""
        for pool in (each for each in of.objects if each["kind"] == "NodePool"):
            name = section(pool, "spec", "template", "spec", "nodeClassRef").get("name")
            for other in others:
                is_its_own = isinstance(other.owner, AWSNodeTemplate)
                if is_its_own and other.owner.metadata.name == name and other.problem:
                    return other.reason, f"AWSNodeTemplate {name}: {other.problem}"
            reference = convert_as(pool, NodePool).spec.template.spec.node_class_ref
            found = self.context.state.snapshot().node_classes.get(reference)
            if found is None and not _makes_class(others, reference.kind, reference.name):
                why = f"there is no {reference.kind} {name}, and no AWSNodeTemplate of that name"
                return NODE_CLASS_NOT_FOUND, why
            ready = found and find(found.status.conditions, READY)
            if found and ready and ready.status == FALSE:
                images = find(found.status.conditions, AMIS_READY)
                is_about_images = images is not None and images.status == FALSE
                hint = _NO_FAMILY if is_about_images and not _names_family(of.owner) else ""
                return NODE_CLASS_NOT_READY, f"{reference.kind} {name}: {ready.message}{hint}"
        return "", ""

    async def _ensure(self, owner: Resource, wanted: JsonObject) -> bool:
        """Create or update an object; return False if another owner holds the name."""
        kind = model_for(wanted["apiVersion"], wanted["kind"])
        present = self.context.mirror(kind).get(wanted["metadata"]["name"])
        if present is None:
            try:
                await self.context.create(kind, _owned_by(owner, wanted))
            except AlreadyExistsError:
                return False
            name = {"name": wanted["metadata"]["name"]}
            self.log.info("created from legacy object", **{wanted["kind"]: name})
            return True
        if not _belongs_to(present, owner):
            # Node classes of other clouds are empty, so any class of that name serves
            return self._may_share_classes and not isinstance(present, NodePool)
        change = difference(present, wanted)
        if change and present.metadata.deletion_timestamp is None:
            await self.context.patch(present, change, locked=True)
        return True

    async def _remove_leftovers(self, translations: list[Translation]) -> None:
        """Delete owned objects that the translation of their owner no longer contains."""
        wanted = {
            (translation.owner.metadata.uid, each["kind"], each["metadata"]["name"])
            for translation in translations
            for each in translation.objects
        }
        owners = {each.owner.metadata.uid for each in translations if not each.problem}
        for mirror in self._owned:
            for obj in mirror.list():
                owner = next((o.uid for o in obj.metadata.owner_references if o.uid in owners), "")
                is_left = owner and (owner, obj.kind, obj.metadata.name) not in wanted
                if is_left and obj.metadata.deletion_timestamp is None:
                    await self.context.delete(obj)

    async def _report(self, owner: Resource, reason: str, message: str) -> None:
        """Write to the status of a Provisioner whether it is in use, and publish why not."""
        if reason:
            event = Event(owner, WARNING, reason, message, dedupe=(owner.metadata.uid, message))
            self.context.recorder.publish(event)
        # The status it has now; the translation may have been made a while ago
        current = self.context.mirror(type(owner)).get(owner.metadata.name)
        if not isinstance(current, Provisioner) or current.metadata.uid != owner.metadata.uid:
            return
        conditions = with_condition(
            current.status.conditions,
            ACTIVE,
            FALSE if reason else TRUE,
            reason,
            message,
            now=self.clock.now(),
            generation=current.metadata.generation,
        )
        pool = self._pools.get(current.metadata.name)
        resources = current.status.resources
        if pool is not None and _belongs_to(pool, current):
            resources = pool.status.resources
        if conditions == current.status.conditions and resources == current.status.resources:
            return
        gone = dict.fromkeys(current.status.resources.keys() - resources.keys())
        status = {"conditions": to_wire(conditions), "resources": {**gone, **resources}}
        await self.context.patch(current, {"status": status}, locked=True, subresource="status")

    def _warn(self, translation: Translation) -> None:
        owner = translation.owner
        for warning in translation.warnings:
            text = f"{owner.metadata.uid} {warning}"
            if text not in self._warned:
                self._warned.add(text)
                name = {owner.kind: {"name": owner.metadata.name}}
                self.log.warning("legacy object is honoured in part", warning=warning, **name)


def _options(settings: Settings) -> Options:
    """Defaults of the conversion, from the settings of the controller."""
    return Options(
        node_role=settings.legacy_node_role or None,
        instance_profile=settings.legacy_instance_profile or None,
        ami_family=settings.legacy_ami_family or "AL2",
        default_node_class=DEFAULT_CLASS,
        legacy_defaults="early" if settings.legacy_defaults == "early" else "late",
    )


def _makes_class(translations: list[Translation], kind: str, name: str) -> bool:
    """Whether a translation creates the node class; the mirror may not show it yet."""
    return any(
        (made["kind"], made["metadata"]["name"]) == (kind, name)
        for each in translations
        for made in each.objects
    )


def _names_family(owner: Resource) -> bool:
    return bool(section(to_plain(owner), "spec", "provider").get("amiFamily"))


def difference(present: Resource, wanted: Mapping[str, Any]) -> JsonObject:
    """The patch that makes an object what is wanted.

    Labels and annotations are added or changed. The only one removed is the annotation that
    carries kubelet settings.
    """
    change: JsonObject = {}
    held = to_plain(present)
    full = to_plain(convert_as(wanted, type(present)))
    spec = merge_patch(section(held, "spec"), section(full, "spec"), section(wanted, "spec"))
    if spec:
        change["spec"] = spec
    for field in ("labels", "annotations"):
        asked = section(wanted, "metadata", field)
        known = section(held, "metadata", field)
        missing = {key: value for key, value in asked.items() if known.get(key) != value}
        if field == "annotations" and known.keys() - asked.keys() >= {labels.KEPT_KUBELET}:
            missing[labels.KEPT_KUBELET] = None  # it would override the settings of the class
        if missing:
            change.setdefault("metadata", {})[field] = missing
    return change


def merge_patch(
    old: Mapping[str, Any], new: Mapping[str, Any], said: Mapping[str, Any]
) -> JsonObject:
    """The JSON merge patch that turns one mapping into another.

    Neither holds defaults. A removed field that ``said`` names is set to its value there instead
    of null, because the field may be required.
    """
    patch: JsonObject = {key: said.get(key) for key in sorted(old.keys() - new.keys())}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            inner = merge_patch(before, value, section(said, key))
            if inner:
                patch[key] = inner
        elif before != value:
            patch[key] = value
    return patch


def _owned_by(owner: Resource, obj: JsonObject) -> JsonObject:
    reference = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [reference]}}


def _belongs_to(obj: Resource, owner: Resource) -> bool:
    return any(each.uid == owner.metadata.uid for each in obj.metadata.owner_references)

"""Claims that a cluster creates for pods: for ephemeral volumes, and for devices by template."""

from collections.abc import Iterator, Mapping

import msgspec

from karpenter.api.devices import ResourceClaim, ResourceClaimTemplate
from karpenter.api.meta import ObjectMeta, Resource
from karpenter.api.pods import Pod, PodResourceClaimStatus
from karpenter.api.storage import PersistentVolumeClaim
from karpenter.state.object_keys import Identity, identity_of, key_of

_replace = msgspec.structs.replace


def missing_claims(objects: Mapping[Identity, Resource]) -> dict[Identity, Resource]:
    """The claims that pods lack, and the pods whose status has to name them, updated."""
    templates = {
        key_of(each): each for each in objects.values() if isinstance(each, ResourceClaimTemplate)
    }
    missing: dict[Identity, Resource] = {}
    for identity, pod in objects.items():
        if not isinstance(pod, Pod) or not (pod.spec.volumes or pod.spec.resource_claims):
            continue
        devices = dict(_device_claims(pod, templates))
        if devices:
            missing[identity] = _naming(pod, devices)
        for claim in (*devices.values(), *_volume_claims(pod)):
            if (name := identity_of(claim)) not in objects:
                missing[name] = claim
    return missing


def _device_claims(
    pod: Pod, templates: Mapping[str, ResourceClaimTemplate]
) -> Iterator[tuple[str, ResourceClaim]]:
    """Yield the claims a pod lacks, by their names in its spec; none if the template is missing."""
    known = {entry.name for entry in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        template = templates.get(f"{pod.metadata.namespace}/{entry.resource_claim_template_name}")
        if template is not None and entry.name not in known:
            claim = ResourceClaim(metadata=_metadata(pod, entry.name), spec=template.spec.spec)
            yield entry.name, claim


def _naming(pod: Pod, made: Mapping[str, ResourceClaim]) -> Pod:
    entries = (PodResourceClaimStatus(name, each.metadata.name) for name, each in made.items())
    statuses = (*pod.status.resource_claim_statuses, *entries)
    return _replace(pod, status=_replace(pod.status, resource_claim_statuses=statuses))


def _volume_claims(pod: Pod) -> Iterator[PersistentVolumeClaim]:
    for volume in pod.spec.volumes:
        template = volume.ephemeral.volume_claim_template if volume.ephemeral else None
        if template is not None:
            yield PersistentVolumeClaim(metadata=_metadata(pod, volume.name), spec=template.spec)


def _metadata(pod: Pod, name: str) -> ObjectMeta:
    return ObjectMeta(name=f"{pod.metadata.name}-{name}", namespace=pod.metadata.namespace)

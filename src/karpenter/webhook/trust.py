"""Whom the API server trusts: the ``caBundle`` of the objects that lead it to the webhook.

These are three CRDs by name, and the two configurations of admission webhooks. Only entries that
name this webhook's Service are touched. A write carries the resourceVersion that was read: after a
concurrent change it conflicts, and the next round decides again.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from karpenter.api.extensions import (
    CustomResourceDefinition,
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)
from karpenter.kube.client import Kube, PatchType

DEFINITIONS: Final = (
    "nodepools.karpenter.sh",
    "nodeclaims.karpenter.sh",
    "ec2nodeclasses.karpenter.k8s.aws",
)
DEFAULTING: Final = "defaulting.webhook.karpenter.sh"
VALIDATION: Final = "validation.webhook.karpenter.sh"

Target: TypeAlias = (
    CustomResourceDefinition | MutatingWebhookConfiguration | ValidatingWebhookConfiguration
)
TARGETS: Final[tuple[tuple[type[Target], str], ...]] = (
    *((CustomResourceDefinition, name) for name in DEFINITIONS),
    (MutatingWebhookConfiguration, DEFAULTING),
    (ValidatingWebhookConfiguration, VALIDATION),
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a webhook is found, and where its certificates are."""

    namespace: str
    service: str
    secret: str


def leads_to(target: Target, place: Place) -> bool:
    """Whether an object refers the API server to a webhook."""
    return any(_is_meant(config, place) for _, config in _configs(target))


def is_published(target: Target, place: Place, bundle: bytes) -> bool:
    """Whether every entry of an object that leads to a webhook trusts exactly this bundle."""
    wanted = _encoded(bundle)
    return all(
        config.ca_bundle == wanted for _, config in _configs(target) if _is_meant(config, place)
    )


async def publish(kube: Kube, target: Target, place: Place, bundle: bytes) -> None:
    """Write a bundle to the ``caBundle`` fields of an object.

    Raises:
        ConflictError: the object has changed since it was read.
    """
    config = {"clientConfig": {"caBundle": _encoded(bundle)}}
    body: dict[str, Any] = {"metadata": {"resourceVersion": target.metadata.resource_version}}
    patch_type = PatchType.MERGE
    if isinstance(target, CustomResourceDefinition):
        body["spec"] = {"conversion": {"webhook": config}}
    else:
        # Merged by name: a list in a merge patch would replace the webhooks of the object
        patch_type = PatchType.STRATEGIC
        body["webhooks"] = [
            {"name": name, **config} for name, each in _configs(target) if _is_meant(each, place)
        ]
    await kube.patch(type(target), target.metadata.name, body, patch_type=patch_type)


def _configs(target: Target) -> Iterator[tuple[str, WebhookClientConfig]]:
    """The ways to webhooks that an object describes, by the name of the webhook."""
    if not isinstance(target, CustomResourceDefinition):
        yield from ((each.name, each.client_config) for each in target.webhooks)
    elif target.spec.conversion.webhook is not None:
        yield "", target.spec.conversion.webhook.client_config


def _is_meant(config: WebhookClientConfig, place: Place) -> bool:
    service = config.service
    return service is not None and (
        (service.namespace, service.name) == (place.namespace, place.service)
    )


def _encoded(bundle: bytes) -> str:
    return base64.b64encode(bundle).decode()

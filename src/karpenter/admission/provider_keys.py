"""The keys of the providers whose kinds are admitted here, by the name of the provider.

A provider that is not listed has no kinds of its own among the CRDs of this project. Nothing is
known of its keys here, so they are judged like those of users.
"""

from collections.abc import Mapping
from typing import Final

from karpenter.api.node_classes import ec2_labels, kwok_labels
from karpenter.model.label_rules import CORE_KEYS, ProviderKeys
from karpenter.model.labels import CORE_WELL_KNOWN

_KEYS: Final[Mapping[str, ProviderKeys]] = {
    "aws": ProviderKeys(
        well_known=CORE_WELL_KNOWN | ec2_labels.WELL_KNOWN,
        domain=ec2_labels.DOMAIN,
        node_classes=frozenset({ec2_labels.NODE_CLASS}),
        settled_at_launch=ec2_labels.SETTLED_AT_LAUNCH,
        alpha=frozenset({ec2_labels.INSTANCE_AMI_ID, ec2_labels.INSTANCE_PODS}),
    ),
    "kwok": ProviderKeys(
        well_known=CORE_WELL_KNOWN | kwok_labels.WELL_KNOWN,
        domain=kwok_labels.DOMAIN,
        node_classes=frozenset({kwok_labels.NODE_CLASS}),
        # so that a NodeOverlay that was tried out with the simulation is accepted on AWS too
        settled_at_launch=ec2_labels.SETTLED_AT_LAUNCH,
    ),
}


def keys_of(provider: str) -> ProviderKeys:
    """The keys of a provider; of one that is unknown, those that every provider has."""
    return _KEYS.get(provider, CORE_KEYS)

"""What a label key or value must look like, and which keys a user may not set in which place.

These are the rules the controllers apply to a stored object: a key belongs to a domain when its
prefix is that domain or a subdomain of it. The schemas of the CRDs compare more coarsely ("ends
with"). Aliases of a key are judged like the key itself.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from karpenter.model import labels
from karpenter.model.labels import domain_of, normalise

_LONGEST_PREFIX: Final = 253
_LONGEST_NAME: Final = 63
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_namespace(name: str) -> bool:
    """Whether a namespace can have a name, which is the value of a label as well."""
    return len(name) <= _LONGEST_NAME and _NAMESPACE.fullmatch(name) is not None


def label_key_problem(key: str) -> str | None:
    """Why ``key`` is not a valid label or taint key, or None when it is."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return "must have at most one '/', between its prefix and its name"
    if slash and not _PREFIX.fullmatch(prefix):
        return "must have a prefix of lower case letters, digits, '-' and '.', like example.com/"
    if len(prefix) > _LONGEST_PREFIX:
        return f"must have a prefix of at most {_LONGEST_PREFIX} characters"
    if not name:
        return "must have a name after its prefix" if slash else "must not be empty"
    return _name_problem(name, "must have a name that")


def label_value_problem(value: str) -> str | None:
    """Why ``value`` is not a valid label value, or None when it is."""
    return _name_problem(value, "must be empty or text that") if value else None


def _name_problem(name: str, opening: str) -> str | None:
    if len(name) > _LONGEST_NAME:
        return f"{opening} has at most {_LONGEST_NAME} characters"
    if not _NAME.fullmatch(name):
        return (
            f"{opening} starts and ends with a letter or digit"
            " and has only letters, digits, '-', '_' and '.' between"
        )
    return None


class Place(Enum):
    """Where a user writes a key: the phrase names the place in messages."""

    NODE_POOL_LABEL = "a NodePool label"
    NODE_POOL_REQUIREMENT = "a NodePool requirement"
    NODE_CLAIM_REQUIREMENT = "a NodeClaim requirement"
    NODE_OVERLAY_REQUIREMENT = "a NodeOverlay requirement"
    POD = "a pod's node constraint"
    V1BETA1_NODE_POOL_LABEL = "a v1beta1 NodePool label"
    V1BETA1_NODE_POOL_REQUIREMENT = "a v1beta1 NodePool requirement"
    V1BETA1_NODE_CLAIM_REQUIREMENT = "a v1beta1 NodeClaim requirement"
    PROVISIONER_LABEL = "a Provisioner label"
    PROVISIONER_REQUIREMENT = "a Provisioner requirement"


@dataclass(frozen=True, slots=True)
class ProviderKeys:
    """The keys of a provider, as far as the rules depend on them."""

    well_known: frozenset[str] = labels.CORE_WELL_KNOWN  # set by it, so users may use them
    domain: str = ""  # the provider's own, in which users may not define keys
    node_classes: frozenset[str] = frozenset()  # labels of nodes that hold the name of their class
    settled_at_launch: frozenset[str] = frozenset()  # set too late for a NodeOverlay to match on
    alpha: frozenset[str] = frozenset()  # well known to the alpha API alone


CORE_KEYS: Final = ProviderKeys()  # of an unknown provider


@dataclass(frozen=True, slots=True)
class _Policy:
    """What one place refuses; ``refused`` overrides what it ``allows``, and that ``domains``."""

    refused: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset({labels.KARPENTER_DOMAIN})
    free_domains: frozenset[str] = frozenset()
    guards_provider_domain: bool = True
    allows_node_classes: bool = False
    allows_alpha_keys: bool = False
    precedes_launch: bool = False  # keys that are set at launch are refused

    def refuses(self, key: str, provider: ProviderKeys) -> bool:
        """Whether exactly this key is refused."""
        return key in self.refused or (self.precedes_launch and key in provider.settled_at_launch)

    def allows(self, key: str, provider: ProviderKeys) -> bool:
        """Whether exactly this key is allowed."""
        return (
            key in provider.well_known
            or (self.allows_node_classes and key in provider.node_classes)
            or (self.allows_alpha_keys and key in provider.alpha)
        )


_OLD_DOMAINS: Final = frozenset({labels.KARPENTER_DOMAIN, "kubernetes.io", "k8s.io"})
_OLD_FREE_DOMAINS: Final = frozenset(
    {"kops.k8s.io", "node.kubernetes.io", "node-restriction.kubernetes.io"}
)

_NODE_POOL: Final = _Policy(refused=frozenset({labels.HOSTNAME, labels.NODEPOOL}))
_NODE_CLAIM: Final = _Policy(
    refused=frozenset({labels.HOSTNAME}),
    # every created claim requires the node class it was made from
    allows_node_classes=True,
)
_NODE_OVERLAY: Final = _Policy(refused=frozenset({labels.HOSTNAME}), precedes_launch=True)
_POD: Final = _Policy(refused=frozenset({labels.HOSTNAME}), guards_provider_domain=False)
_V1BETA1_NODE_POOL: Final = _Policy(
    refused=_NODE_POOL.refused, domains=_OLD_DOMAINS, free_domains=_OLD_FREE_DOMAINS
)
_V1BETA1_NODE_CLAIM: Final = _Policy(
    refused=_NODE_CLAIM.refused,
    allows_node_classes=True,
    domains=_OLD_DOMAINS,
    free_domains=_OLD_FREE_DOMAINS,
)
_PROVISIONER: Final = _Policy(
    refused=frozenset(
        {
            labels.HOSTNAME,
            labels.PROVISIONER_NAME,
            labels.EMPTINESS_TIMESTAMP,
            # well known today, but unknown to the alpha API and therefore reserved there
            labels.NODEPOOL,
        }
    ),
    allows_alpha_keys=True,
    domains=_OLD_DOMAINS,
    free_domains=_OLD_FREE_DOMAINS,
)

_POLICIES: Final = {
    Place.NODE_POOL_LABEL: _NODE_POOL,
    Place.NODE_POOL_REQUIREMENT: _NODE_POOL,
    Place.NODE_CLAIM_REQUIREMENT: _NODE_CLAIM,
    Place.NODE_OVERLAY_REQUIREMENT: _NODE_OVERLAY,
    Place.POD: _POD,
    Place.V1BETA1_NODE_POOL_LABEL: _V1BETA1_NODE_POOL,
    Place.V1BETA1_NODE_POOL_REQUIREMENT: _V1BETA1_NODE_POOL,
    Place.V1BETA1_NODE_CLAIM_REQUIREMENT: _V1BETA1_NODE_CLAIM,
    Place.PROVISIONER_LABEL: _PROVISIONER,
    Place.PROVISIONER_REQUIREMENT: _PROVISIONER,
}


def restricted_reason(key: str, *, place: Place, provider: ProviderKeys = CORE_KEYS) -> str | None:
    """Why ``key`` may not be used in ``place``, or None when it may."""
    policy = _POLICIES[place]
    stable = normalise(key)
    if policy.refuses(stable, provider):
        return f"label {key} may not be used as {place.value}; remove it"
    if policy.allows(stable, provider):
        return None
    domain = domain_of(stable)
    if any(_is_in_domain(domain, free) for free in policy.free_domains):
        return None
    guarded = set(policy.domains)
    if policy.guards_provider_domain and provider.domain:
        guarded.add(provider.domain)
    for restricted in sorted(guarded):
        if _is_in_domain(domain, restricted):
            return (
                f"label domain {restricted} is restricted for {place.value};"
                f" use a well-known label or one of your own domain instead of {key}"
            )
    return None


def _is_in_domain(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")

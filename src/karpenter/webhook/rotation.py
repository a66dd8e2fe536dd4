"""What the Secret of the webhook holds, and what it should hold next; pure but for new keys.

The API server trusts the authorities, replicas serve the leaf. A leaf is only replaced by one of an
authority that the API server trusts already, and an authority is only dropped when no replica
serves a leaf of it any more. So an authority changes in three steps: both are trusted, the leaf
changes, the old one is dropped. Each step is decided from what the Secret holds, so that any
replica can take the next one.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from karpenter.webhook.certificates import (
    Certificate,
    make_authority,
    make_leaf,
    read_certificates,
)

RENEW_LEAF: Final = timedelta(days=30)  # before it expires: 60 days after it was made
RENEW_AUTHORITY: Final = timedelta(days=365)
# Replicas read the Secret every ten seconds; one that fails for this long has lost the API server
RETIRE: Final = timedelta(minutes=5)

_AUTHORITIES: Final = "ca.crt"
_AUTHORITY_KEY: Final = "ca.key"
_LEAF: Final = "tls.crt"
_LEAF_KEY: Final = "tls.key"


@dataclass(frozen=True, slots=True)
class Holdings:
    """Certificates of one webhook; the first of the authorities signs, and has its key."""

    authorities: tuple[Certificate, ...] = ()
    leaf: Certificate | None = None

    @property
    def bundle(self) -> bytes:
        """What the API server is to trust."""
        return b"".join(each.pem for each in self.authorities)

    def usable_leaf(self, now: datetime) -> Certificate | None:
        """The leaf, if a replica may show it now."""
        leaf = self.leaf
        if leaf is None or not leaf.is_valid(now) or not leaf.has_own_key:
            return None
        return leaf

    def without_signer(self) -> "Holdings":
        """The same without the key that signs: the authority is trusted, but signs no new leaf."""
        return replace(self, authorities=_keyless(self.authorities))


def read_holdings(data: Mapping[str, str]) -> Holdings:
    """Read the data of a Secret; what cannot be read counts as absent."""
    authorities = read_certificates(_decoded(data.get(_AUTHORITIES)))
    if authorities:
        signer = replace(authorities[0], key_pem=_decoded(data.get(_AUTHORITY_KEY)))
        authorities = (signer, *authorities[1:])
    leaves = read_certificates(_decoded(data.get(_LEAF)))
    key = _decoded(data.get(_LEAF_KEY))
    return Holdings(authorities, replace(leaves[0], key_pem=key) if leaves else None)


def written(holdings: Holdings) -> dict[str, str]:
    """Holdings as the data of a Secret."""
    leaf = holdings.leaf
    assert leaf is not None, "only complete holdings are stored"
    parts = {
        _AUTHORITIES: holdings.bundle,
        _AUTHORITY_KEY: holdings.authorities[0].key_pem,
        _LEAF: leaf.pem,
        _LEAF_KEY: leaf.key_pem,
    }
    return {name: base64.b64encode(part).decode() for name, part in parts.items()}


def next_holdings(
    current: Holdings, now: datetime, names: tuple[str, ...], *, is_trusted: bool
) -> Holdings:
    """What the Secret should hold next; the same object if nothing is to change.

    Args:
        current: what it holds.
        now: the time.
        names: the host names of the Service.
        is_trusted: whether all API servers have loaded the present authorities.
    """
    trusted = tuple(each for each in current.authorities if each.is_valid(now))
    signer = trusted[0] if trusted and trusted[0] == current.authorities[0] else None
    if signer is None or not signer.has_own_key or signer.expires - now <= RENEW_AUTHORITY:
        return _with_new_authority(current, trusted, names, now)
    leaf = _shown_leaf(current, trusted, names, now)
    if leaf is None:
        return Holdings(trusted, make_leaf(signer, names, now))
    if not leaf.is_signed_by(signer):
        return Holdings(trusted, make_leaf(signer, names, now)) if is_trusted else current
    if leaf.expires - now <= RENEW_LEAF:
        return Holdings(trusted, make_leaf(signer, names, now))
    if len(current.authorities) > 1 and is_trusted and now - leaf.made >= RETIRE:
        return Holdings((signer,), leaf)
    return current


def _with_new_authority(
    current: Holdings, trusted: tuple[Certificate, ...], names: tuple[str, ...], now: datetime
) -> Holdings:
    """Add an authority; the one behind the present leaf stays trusted until that is replaced."""
    made = make_authority(now)
    leaf = _shown_leaf(current, trusted, names, now)
    if leaf is None:
        return Holdings((made, *_keyless(trusted[:1])), make_leaf(made, names, now))
    behind = next(each for each in trusted if leaf.is_signed_by(each))
    return Holdings((made, *_keyless((behind,))), leaf)


def _keyless(authorities: tuple[Certificate, ...]) -> tuple[Certificate, ...]:
    return tuple(Certificate(each.pem) for each in authorities)


def _shown_leaf(
    current: Holdings, trusted: tuple[Certificate, ...], names: tuple[str, ...], now: datetime
) -> Certificate | None:
    """The present leaf, if API servers that trust these authorities accept it."""
    leaf = current.usable_leaf(now)
    if leaf is None or names[0] not in leaf.names:
        return None
    return leaf if any(map(leaf.is_signed_by, trusted)) else None


def _decoded(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except (binascii.Error, ValueError):
        return b""

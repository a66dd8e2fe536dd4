"""What becomes of names in a recording: they stay, or become hashes; addresses never stay."""

import hashlib
import hmac
import re
from typing import Final

from karpenter.model import labels

_DIGITS: Final = 16  # of a hash, in base 16
_ORDINAL: Final = re.compile(r"(.+?)(-[0-9]{1,10})")
# Addresses with dots or hyphens, as nodes are named by, and numbers of accounts
_ADDRESS: Final = re.compile(
    r"(?<![0-9])[0-9]{1,3}(?:[.-][0-9]{1,3}){3}(?![0-9])|(?<![0-9])[0-9]{12}(?![0-9])"
)
# What every cluster has, so that it tells nothing about one
_COMMON: Final = frozenset(
    {
        "default",
        "default-scheduler",
        "kube-node-lease",
        "kube-public",
        "kube-system",
        "system-cluster-critical",
        "system-node-critical",
    }
)
_READABLE_KEYS: Final = (labels.CORE_WELL_KNOWN | set(labels.ALIASES)) - {labels.NODEPOOL}
_READABLE_DOMAINS: Final = ("karpenter.k8s.aws", "karpenter.kwok.sh")
_FINGERPRINT: Final = b"karpenter record"


class Names:
    """Turns the names of a cluster into those of its recording; equal ones stay equal."""

    def __init__(self, key: bytes, *, is_hashing: bool) -> None:
        """Prepare.

        Args:
            key: of the hashes; with it one can find out which name a hash stands for.
            is_hashing: all names become hashes, and not only those that hold an address.
        """
        self._key = key
        self._is_hashing = is_hashing
        self._known: dict[str, str] = {}

    @property
    def fingerprint(self) -> str:
        """Tells keys apart without telling them; empty where names stay."""
        return self._hash(_FINGERPRINT) if self._is_hashing else ""

    def name(self, text: str) -> str:
        """The name of an object, or whatever may be one; an ordinal at its end stays."""
        if not self._is_hashing:
            return text if _ADDRESS.search(text) is None else self._hashed(text)
        if text in _COMMON or not text:
            return text
        parts = _ORDINAL.fullmatch(text)
        return self._hashed(parts[1]) + parts[2] if parts is not None else self._hashed(text)

    def value(self, key: str, text: str) -> str:
        """The value of a label; those with a meaning to schedulers stay."""
        if key in _READABLE_KEYS or labels.domain_of(key) in _READABLE_DOMAINS:
            return text
        return self.name(text) if text not in ("true", "false") else text

    def image(self, text: str) -> str:
        """The name of an image; registries are named by the number of an account."""
        if self._is_hashing or _ADDRESS.search(text) is not None:
            return self._hashed(text)
        return text

    def _hashed(self, text: str) -> str:
        found = self._known.get(text)
        if found is None:
            if len(self._known) > 10_000:  # so that memory does not grow with time
                self._known.clear()
            found = self._known[text] = f"h{self._hash(text.encode())}"
        return found

    def _hash(self, text: bytes) -> str:
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()[:_DIGITS]

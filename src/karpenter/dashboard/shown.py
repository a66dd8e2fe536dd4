"""What of a cluster may be shown: the names of some namespaces only, or hashes in place of names."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

_DIGITS: Final = 10  # of a hash: enough to tell a hundred thousand names apart


@dataclass(frozen=True, slots=True)
class Shown:
    """Which names leave the process."""

    namespaces: frozenset[str] | None = None  # whose pods have names; None: all
    is_redacted: bool = False
    # Mixed into the hashes, so that names cannot be guessed; the same key gives the same hashes
    key: bytes = b""

    def shows(self, namespace: str) -> bool:
        """Whether pods of a namespace are shown by name."""
        return self.namespaces is None or namespace in self.namespaces

    def name(self, text: str) -> str:
        """A name as it is shown."""
        if not self.is_redacted or not text:
            return text
        return blake2b(text.encode(), key=self.key[:64], digest_size=_DIGITS // 2).hexdigest()

    def reference(self, text: str) -> str:
        """A kind and a name, such as ``Deployment/web`` or ``Pod/default/web``, as it is shown."""
        if not self.is_redacted:
            return text
        kind, *names = text.split("/")
        return "/".join((kind, *map(self.name, names)))


EVERYTHING: Final = Shown()

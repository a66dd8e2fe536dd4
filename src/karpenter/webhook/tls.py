"""The TLS side of the server: one context, whose certificate is replaced while it serves.

OpenSSL reads certificates and keys from files only. The files are in memory where the system can do
that, so that no key is written to a disk and a read-only root file system is enough.
"""

import asyncio
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from karpenter.webhook.certificates import Certificate

_DESCRIPTORS: Final = Path("/proc/self/fd")


class TlsIdentity:
    """What the server shows of itself; nothing until it has its first certificate."""

    def __init__(self) -> None:
        self.context: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.shown: Certificate | None = None
        self.is_shown: Final = asyncio.Event()

    def show(self, leaf: Certificate) -> bool:
        """Use a certificate from the next connection on; return whether it is another one."""
        if leaf == self.shown:
            return False
        with _file(leaf.pem + leaf.key_pem) as path:
            self.context.load_cert_chain(path)
        self.shown = leaf
        self.is_shown.set()
        return True


@contextmanager
def _file(content: bytes) -> Iterator[Path]:
    """A file with some content, for as long as the block runs."""
    if hasattr(os, "memfd_create") and _DESCRIPTORS.exists():
        descriptor = os.memfd_create("webhook-certificate")
        try:
            os.write(descriptor, content)
            yield _DESCRIPTORS / str(descriptor)
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory() as folder:  # which nobody else may enter
        path = Path(folder) / "certificate.pem"
        path.write_bytes(content)
        yield path

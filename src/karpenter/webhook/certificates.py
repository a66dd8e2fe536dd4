"""The certificates of the webhook: an authority of its own, and a leaf for the Service's names.

Keys are of the curve P-256. Certificates are valid from an hour before they are made, because the
clocks of API servers and replicas differ. The age of a certificate counts from its creation.
"""

import asyncio
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from karpenter.api.times import earlier, in_seconds, later

_DESCRIPTORS: Final = Path("/proc/self/fd")

AUTHORITY_DAYS: Final = 3650
LEAF_DAYS: Final = 90
_SECONDS_OF_A_DAY: Final = 86_400
_BACKDATED: Final = timedelta(hours=1)
_UNREADABLE: Final = (ValueError, TypeError, UnsupportedAlgorithm)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate, and its key where that is known."""

    pem: bytes
    key_pem: bytes = b""

    @property
    def _x509(self) -> x509.Certificate:
        return _parsed(self.pem)

    @property
    def made(self) -> datetime:
        """When it was made."""
        return later(self._x509.not_valid_before_utc, _BACKDATED)

    @property
    def expires(self) -> datetime:
        """When it stops being valid."""
        return self._x509.not_valid_after_utc

    def is_valid(self, now: datetime) -> bool:
        """Whether it may be shown or trusted now."""
        found = self._x509
        return found.not_valid_before_utc <= now < found.not_valid_after_utc

    @property
    def has_own_key(self) -> bool:
        """Whether the private key is present and matches the certificate."""
        try:
            key = load_pem_private_key(self.key_pem, None)
        except _UNREADABLE:
            return False
        return _public(key.public_key()) == _public(self._x509.public_key())

    def is_signed_by(self, authority: "Certificate") -> bool:
        """Whether an authority has signed it."""
        try:
            self._x509.verify_directly_issued_by(authority._x509)  # noqa: SLF001 of the same class
        except (InvalidSignature, *_UNREADABLE):
            return False
        return True

    @property
    def names(self) -> frozenset[str]:
        """The host names it is for."""
        try:
            found = self._x509.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except (x509.ExtensionNotFound, ValueError):
            return frozenset()
        return frozenset(found.value.get_values_for_type(x509.DNSName))


@lru_cache(maxsize=16)
def _parsed(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def read_certificates(pem: bytes) -> tuple[Certificate, ...]:
    """The certificates in a text, each without a key; none if it cannot be read."""
    try:
        found = x509.load_pem_x509_certificates(pem)
    except ValueError:
        return ()
    return tuple(Certificate(each.public_bytes(Encoding.PEM)) for each in found)


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The host names of a Service; the API server connects to the first."""
    return (
        f"{service}.{namespace}.svc",
        f"{service}.{namespace}.svc.cluster.local",
        f"{service}.{namespace}",
    )


def make_authority(now: datetime) -> Certificate:
    """Make an authority that signs leaves and nothing else."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # The serial number in the name separates two authorities while both are trusted
    name = _name(f"karpenter webhook authority {serial % 2**32:08x}")
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    signed = (
        _builder(name, name, key, serial, now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return Certificate(signed.public_bytes(Encoding.PEM), _key_pem(key))


def make_leaf(authority: Certificate, names: tuple[str, ...], now: datetime) -> Certificate:
    """Make a certificate for a server, signed by an authority whose key is there."""
    signer = load_pem_private_key(authority.key_pem, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey), "authorities are made here"
    issuer = x509.load_pem_x509_certificate(authority.pem)
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    signed = (
        _builder(
            _name(names[0][:64]), issuer.subject, key, x509.random_serial_number(), now, LEAF_DAYS
        )
        .add_extension(alternatives, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    return Certificate(signed.public_bytes(Encoding.PEM), _key_pem(key))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    serial: int,
    now: datetime,
    days: int,
) -> x509.CertificateBuilder:
    made = now.replace(microsecond=0)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(earlier(made, _BACKDATED))
        .not_valid_after(later(made, in_seconds(days * _SECONDS_OF_A_DAY)))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _public(key: object) -> bytes:
    encoded = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]
    assert isinstance(encoded, bytes)
    return encoded


class TlsIdentity:
    """The TLS context of the server, whose certificate is replaced while it serves.

    OpenSSL reads certificates and keys from files only. The files are in memory where the system
    can do that, so that no key is written to a disk and a read-only root file system is enough.
    """

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
    with tempfile.TemporaryDirectory() as folder:  # readable by its owner alone
        path = Path(folder) / "certificate.pem"
        path.write_bytes(content)
        yield path

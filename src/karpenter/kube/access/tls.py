"""TLS settings made of certificates that exist only in memory."""

import ssl
import tempfile
from pathlib import Path

from karpenter.kube.access.types import Certificate, Tls
from karpenter.kube.errors import CredentialsError


def tls_context(tls: Tls, certificate: Certificate | None) -> ssl.SSLContext:
    """The TLS context that verifies the server and presents the client certificate.

    Raises:
        CredentialsError: one of the certificates cannot be used.
    """
    context = _trusting(tls)
    if certificate is not None:
        _present(context, certificate)
    return context


def _trusting(tls: Tls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(
            cadata=tls.ca.decode("ascii", errors="replace") if tls.ca else None
        )
    except (ssl.SSLError, ValueError) as error:
        raise CredentialsError(
            f"the certificate-authority holds no usable certificate: {_reason(error)}"
        ) from error
    # Certificates of clusters often lack the extensions that this flag requires
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if tls.is_unchecked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _present(context: ssl.SSLContext, certificate: Certificate) -> None:
    # The ssl module reads keys from files only; this one is readable by its owner and soon gone
    with tempfile.TemporaryDirectory(prefix="karpenter-") as folder:
        both = Path(folder) / "client.pem"
        both.touch(mode=0o600)
        both.write_bytes(certificate.certificate.rstrip() + b"\n" + certificate.key)
        try:
            # For an encrypted key, OpenSSL would otherwise prompt for a password on the terminal
            context.load_cert_chain(both, password=_no_password)
        except (ssl.SSLError, ValueError, OSError) as error:
            raise CredentialsError(
                f"the client certificate and its key cannot be used together: {_reason(error)}"
            ) from error


def _no_password() -> str:
    raise ValueError("the key is protected by a password")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return str(error)

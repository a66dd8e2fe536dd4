"""The keys of one test cluster, made by the ``openssl`` program.

Everything lives in one folder that the caller throws away; nothing is reused between clusters.
"""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files that kube-apiserver needs; its self-signed certificate is also the CA of users."""

    server: Path
    server_key: Path
    service_account_key: Path


def make_certificates(folder: Path) -> Certificates:
    """Make a certificate for 127.0.0.1 and a key that signs service accounts."""
    made = Certificates(
        server=folder / "server.crt",
        server_key=folder / "server.key",
        service_account_key=folder / "service-account.key",
    )
    _openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
        *("-subj", "/CN=kube-apiserver", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
        *("-keyout", made.server_key, "-out", made.server),
    )
    _openssl("genrsa", "-out", made.service_account_key, "2048")
    return made


@dataclass(frozen=True, slots=True)
class UserCertificate:
    """The files with which a user proves who it is."""

    certificate: Path
    key: Path


def make_user_certificate(
    folder: Path, certificates: Certificates, name: str, groups: Iterable[str]
) -> UserCertificate:
    """Make a certificate that says who a user is and which groups it belongs to."""
    made = UserCertificate(folder / f"{name}.crt", folder / f"{name}.key")
    request = folder / f"{name}.csr"
    subject = "".join([*(f"/O={group}" for group in groups), f"/CN={name}"])
    _openssl(
        *("req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", subject),
        *("-keyout", made.key, "-out", request),
    )
    _openssl(
        *("x509", "-req", "-in", request, "-days", "2", "-CAcreateserial"),
        *("-CA", certificates.server, "-CAkey", certificates.server_key),
        *("-out", made.certificate),
    )
    return made


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)

"""Certificates made on the spot with the openssl program, so that no key stands in the repository."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority in a folder."""

    folder: Path

    @property
    def ca(self) -> bytes:
        return (self.folder / "ca.crt").read_bytes()

    def issue(self, name: str) -> tuple[Path, Path]:
        """A certificate and its key for a DNS name."""
        key, request = self.folder / f"{name}.key", self.folder / f"{name}.csr"
        certificate, names = self.folder / f"{name}.crt", self.folder / f"{name}.txt"
        names.write_text(f"subjectAltName=DNS:{name}\n")
        _openssl("req", "-new", *_new_key(key), "-subj", f"/CN={name}", "-out", request)
        signer = ("-CA", self.folder / "ca.crt", "-CAkey", self.folder / "ca.key")
        files = ("-in", request, "-out", certificate, "-extfile", names)
        _openssl("x509", "-req", *signer, "-CAcreateserial", "-days", "2", *files)
        return certificate, key


def new_authority(folder: Path) -> Authority:
    """A new authority, or a skipped test where there is no openssl program."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl program is not installed, so there are no certificates to test")
    name = ("-subj", "/CN=test authority", "-days", "2", "-out", folder / "ca.crt")
    _openssl("req", "-x509", *_new_key(folder / "ca.key"), *name)
    return Authority(folder)


def _new_key(path: Path) -> tuple[str | Path, ...]:
    return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path)


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)

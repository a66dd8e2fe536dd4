"""Where a release comes from: checksums of its files, a statement of how they were made, a signature.

``SHA256SUMS`` lists every other file, in the format of ``sha256sum``; the signature is of that list, by an
ECDSA key on the curve P-256, which ``openssl dgst`` verifies. The statement is in-toto's, with the
predicate of SLSA's provenance v1.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

SUMS: Final = "SHA256SUMS"
SIGNATURE: Final = "SHA256SUMS.sig"
STATEMENT: Final = "provenance.json"
_ALGORITHM: Final = ec.ECDSA(hashes.SHA256())


class ReleaseError(Exception):
    """A release that cannot be made or is not what it should be; the text is one sentence."""


def sha256(file: Path) -> str:
    """The checksum of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def write_sums(folder: Path) -> None:
    """List the checksum of every file but the list itself and its signature."""
    lines = [f"{sha256(file)}  {file.name}\n" for file in _listed(folder)]
    (folder / SUMS).write_text("".join(lines), "utf-8")


def check_sums(folder: Path) -> None:
    """Check that the list has every file, as it is.

    Raises:
        ReleaseError: it has not.
    """
    if not (folder / SUMS).is_file():
        raise ReleaseError(f"{folder} has no {SUMS}: it is no folder of a release")
    lines = (folder / SUMS).read_text("utf-8").splitlines()
    wanted = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    found = {file.name: sha256(file) for file in _listed(folder)}
    for name in sorted(wanted.keys() | found.keys()):
        if name not in found:
            raise ReleaseError(f"{name} is listed in {SUMS} and missing")
        if name not in wanted:
            raise ReleaseError(f"{name} is not listed in {SUMS}")
        if wanted[name] != found[name]:
            raise ReleaseError(f"{name} is not the file that {SUMS} lists; fetch it again")


def sign(folder: Path, key: Path) -> None:
    """Sign the list of checksums.

    Raises:
        ReleaseError: the key cannot be used.
    """
    try:
        loaded = serialization.load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise ReleaseError(f"{key} cannot be read as a private key without a password") from error
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise ReleaseError(f"{key} is no ECDSA key; make one as RELEASING.md says")
    (folder / SIGNATURE).write_bytes(loaded.sign((folder / SUMS).read_bytes(), _ALGORITHM))


def check_signature(folder: Path, key: Path) -> None:
    """Check the signature with the public key of releases.

    Raises:
        ReleaseError: it is missing, or made with another key.
    """
    if not (folder / SIGNATURE).is_file():
        raise ReleaseError(f"{folder} has no {SIGNATURE}: the release is not signed")
    try:
        loaded = serialization.load_pem_public_key(key.read_bytes())
    except (OSError, ValueError) as error:
        raise ReleaseError(f"{key} cannot be read as a public key") from error
    if not isinstance(loaded, ec.EllipticCurvePublicKey):
        raise ReleaseError(f"{key} is no ECDSA key")
    try:
        loaded.verify((folder / SIGNATURE).read_bytes(), (folder / SUMS).read_bytes(), _ALGORITHM)
    except InvalidSignature as error:
        raise ReleaseError(
            f"{SIGNATURE} was not made with the key of {key}, or {SUMS} was changed"
        ) from error


def statement(
    folder: Path,
    *,
    commit: str,
    parameters: Mapping[str, Any],
    inputs: Iterable[Path],
    builder: str,
) -> dict[str, Any]:
    """What was made, from which sources and inputs, and by whom."""
    sources = [{"name": "source", "digest": {"gitCommit": commit}}]
    dependencies = [{"name": file.name, "digest": {"sha256": sha256(file)}} for file in inputs]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": file.name, "digest": {"sha256": sha256(file)}}
            for file in _listed(folder)
            if file.name != STATEMENT
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:karpenter:release:v1",
                "externalParameters": dict(parameters),
                "resolvedDependencies": [*sources, *dependencies],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


def check_statement(folder: Path) -> dict[str, Any]:
    """Check that the statement has every file with its digest, and return it.

    Raises:
        ReleaseError: it does not.
    """
    try:
        found: dict[str, Any] = json.loads((folder / STATEMENT).read_text("utf-8"))
        subjects = {each["name"]: each["digest"]["sha256"] for each in found["subject"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReleaseError(f"{STATEMENT} is missing or no statement of in-toto") from error
    files = {file.name: sha256(file) for file in _listed(folder) if file.name != STATEMENT}
    for name in sorted(subjects.keys() | files.keys()):
        if subjects.get(name) != files.get(name):
            raise ReleaseError(f"{STATEMENT} does not speak of {name} as it is")
    return found


def commit_of(found: Mapping[str, Any]) -> str:
    """The commit that a statement names."""
    (source,) = [
        each["digest"]["gitCommit"]
        for each in found["predicate"]["buildDefinition"]["resolvedDependencies"]
        if "gitCommit" in each["digest"]
    ]
    return str(source)


def _listed(folder: Path) -> list[Path]:
    return sorted(
        file for file in folder.iterdir() if file.is_file() and file.name not in (SUMS, SIGNATURE)
    )

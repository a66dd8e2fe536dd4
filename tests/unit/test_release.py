"""The parts of a release: notes, checksums, signature, statement, manifest of the plugin, licences."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

import release
from releasing import archives, krew, licences, provenance, wheels
from releasing.provenance import ReleaseError

COMMIT = "0123456789012345678901234567890123456789"


def write_keys(folder: Path, private: PrivateKeyTypes) -> tuple[Path, Path]:
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    secret, public = folder / "release.key", folder / "release.pub"
    secret.write_bytes(private.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(private.public_key().public_bytes(pem, form))
    return secret, public


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small release: two files, their statement and checksums."""
    made = tmp_path / "release"
    made.mkdir()
    for name in ("program.whl", "chart.tgz"):
        (made / name).write_text(f"content of {name}")
    stated = provenance.statement(
        made, commit=COMMIT, parameters={"version": "1.2.3"}, inputs=[], builder="urn:me"
    )
    (made / provenance.STATEMENT).write_text(json.dumps(stated))
    provenance.write_sums(made)
    return made


def test_a_release_that_is_as_it_was_made_passes(folder: Path, tmp_path: Path) -> None:
    secret, public = write_keys(tmp_path, ec.generate_private_key(ec.SECP256R1()))
    provenance.sign(folder, secret)

    provenance.check_sums(folder)
    provenance.check_signature(folder, public)
    assert COMMIT == provenance.commit_of(provenance.check_statement(folder))


@pytest.mark.case("OPS-23")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(
            lambda f: (f / "program.whl").write_text("content of Program.whl"),
            "program.whl is not the file that SHA256SUMS lists",
            id="one other byte",
        ),
        pytest.param(
            lambda f: (f / "chart.tgz").unlink(),
            "chart.tgz is listed in SHA256SUMS and missing",
            id="gone",
        ),
        pytest.param(
            lambda f: (f / "more.whl").touch(),
            "more.whl is not listed in SHA256SUMS",
            id="one more",
        ),
        pytest.param(lambda f: (f / "SHA256SUMS").unlink(), "has no SHA256SUMS", id="no list"),
    ],
)
def test_a_changed_file_is_named(
    folder: Path, change: Callable[[Path], object], problem: str
) -> None:
    change(folder)

    with pytest.raises(ReleaseError, match=re.escape(problem)):
        provenance.check_sums(folder)


def test_a_list_that_was_written_anew_has_no_signature_and_no_statement(
    folder: Path, tmp_path: Path
) -> None:
    secret, public = write_keys(tmp_path, ec.generate_private_key(ec.SECP256R1()))
    provenance.sign(folder, secret)
    (folder / "program.whl").write_text("another")
    provenance.write_sums(folder)

    provenance.check_sums(folder)
    with pytest.raises(ReleaseError, match="was not made with the key of"):
        provenance.check_signature(folder, public)
    with pytest.raises(ReleaseError, match=r"does not speak of program\.whl as it is"):
        provenance.check_statement(folder)


def test_keys_of_others_and_other_kinds_are_refused(folder: Path, tmp_path: Path) -> None:
    secret, _ = write_keys(tmp_path, ec.generate_private_key(ec.SECP256R1()))
    with pytest.raises(ReleaseError, match="the release is not signed"):
        provenance.check_signature(folder, secret)
    provenance.sign(folder, secret)
    _, other = write_keys(tmp_path, ec.generate_private_key(ec.SECP256R1()))
    with pytest.raises(ReleaseError, match="was not made with the key of"):
        provenance.check_signature(folder, other)
    edwards, _ = write_keys(tmp_path, ed25519.Ed25519PrivateKey.generate())
    with pytest.raises(ReleaseError, match="is no ECDSA key"):
        provenance.sign(folder, edwards)
    with pytest.raises(ReleaseError, match="cannot be read as a private key"):
        provenance.sign(folder, folder / "program.whl")


@pytest.mark.parametrize(
    "title", ["1.2.3", "[1.2.3]", "1.2.3 - 2026-08-01", "[1.2.3] - 2026-08-01"]
)
def test_notes_are_the_section_of_the_version(tmp_path: Path, title: str) -> None:
    text = f"# Changelog\n\n## Unreleased\n\nnext\n\n## {title}\n\n### Added\n- this\n\n## 1.2.2\n\nold\n"
    (tmp_path / "CHANGELOG.md").write_text(text)

    assert "### Added\n- this\n" == release.notes_of(tmp_path, "1.2.3")
    assert "next\n" == release.notes_of(tmp_path, "Unreleased")
    with pytest.raises(ReleaseError, match=r"has no section 1\.2; rename Unreleased to it"):
        release.notes_of(tmp_path, "1.2")


def test_an_archive_is_the_same_every_time(tmp_path: Path) -> None:
    entries = {"b": archives.Entry(b"2"), "a": archives.Entry(b"1", is_program=True)}
    archives.write(tmp_path / "first", entries)
    archives.write(tmp_path / "second", dict(reversed(entries.items())))

    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


@pytest.mark.case("OPS-44")
def test_the_manifest_has_what_krew_asks_for(tmp_path: Path) -> None:
    made = {}
    for platform in wheels.PLATFORMS:
        made[platform] = tmp_path / krew.archive_name("1.2.3", platform)
        archives.write(made[platform], {"kubectl-karpenter": archives.Entry(b"", is_program=True)})

    plugin = yaml.safe_load(krew.manifest("1.2.3", made, "https://example.com/v1.2.3/"))

    spec = plugin["spec"]
    assert ("krew.googlecontainertools.github.com/v1alpha2", "Plugin", {"name": "karpenter"}) == (
        plugin["apiVersion"],
        plugin["kind"],
        plugin["metadata"],
    )
    assert "v1.2.3" == spec["version"]
    assert 0 < len(spec["shortDescription"]) <= 50
    assert not spec["shortDescription"].endswith(".")
    assert {
        "version",
        "homepage",
        "shortDescription",
        "description",
        "caveats",
        "platforms",
    } == set(spec)
    for platform, each in zip(wheels.PLATFORMS, spec["platforms"], strict=True):
        labels = {"os": platform.system, "arch": platform.processor}
        assert {"selector": {"matchLabels": labels}, "bin": "kubectl-karpenter"} == {
            name: each[name] for name in ("selector", "bin")
        }
        assert provenance.sha256(made[platform]) == each["sha256"]
        assert f"https://example.com/v1.2.3/{made[platform].name}" == each["uri"]
        assert {"selector", "uri", "sha256", "bin"} == set(each)


def test_the_page_of_dependencies_is_what_is_pinned() -> None:
    assert licences.text() == licences.PAGE.read_text("utf-8"), "run python -m releasing.licences"


def test_every_licence_is_one_that_was_decided_about() -> None:
    found = [*licences.dependencies(), *licences.vendored()]

    assert len(found) > 30
    assert [] == [each for each in found if not each.is_allowed]
    assert not licences.Dependency("a", "1", "MIT AND GPL-3.0-only", "").is_allowed
    assert not licences.Dependency("a", "1", "unknown", "").is_allowed

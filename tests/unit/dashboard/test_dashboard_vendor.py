"""The vendored libraries of the page are those that the lock file names, and need nothing else."""

import hashlib
import json
import re
import zipfile
from importlib import resources
from pathlib import Path

import pytest

import vendor
from releasing import wheels

MODULES = sorted(each for each in vendor.VENDOR.glob("*.js") if "iife" not in each.name)


def locked() -> list[dict[str, object]]:
    return list(json.loads((vendor.VENDOR / vendor.LOCK).read_text("utf-8"))["packages"])


def test_files_are_those_of_the_lock_and_no_others() -> None:
    found = {
        each.name: hashlib.sha256(each.read_bytes()).hexdigest()
        for each in vendor.VENDOR.iterdir()
        if each.name not in (vendor.LOCK, vendor.LICENSES)
    }

    named: dict[str, str] = {}
    for package in locked():
        assert isinstance(package["files"], dict)
        named |= package["files"]
    assert named == found


def test_the_lock_has_the_versions_that_the_tool_takes() -> None:
    assert [
        (each.name, each.version, each.licence, each.integrity) for each in vendor.PACKAGES
    ] == [
        tuple(each[key] for key in ("name", "version", "licence", "integrity")) for each in locked()
    ]


def test_every_package_has_its_licence() -> None:
    text = (vendor.VENDOR / vendor.LICENSES).read_text("utf-8")

    for each in vendor.PACKAGES:
        assert f"{each.name} {each.version} ({each.licence})\n" in text


@pytest.mark.parametrize("module", MODULES, ids=lambda each: each.name)
def test_a_module_imports_files_beside_it_only(module: Path) -> None:
    text = module.read_text("utf-8")

    names = re.findall(r"""(?:\bfrom|\bimport)\s*["']([^"']+)["']""", text)
    assert [] == [each for each in names if not (module.parent / each).is_file()]
    assert "sourceMappingURL" not in text


def test_a_module_that_imports_what_is_not_vendored_is_refused() -> None:
    assert 'import{a}from"./preact.js";' == vendor.browser_module('import{a}from"preact";')
    with pytest.raises(SystemExit, match="'react', which is not vendored"):
        vendor.browser_module('import{a}from"react";')


def test_an_archive_with_another_hash_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = vendor.PACKAGES[0]
    npm = tmp_path / "npm"
    npm.write_text(f"#!/bin/sh\necho changed > {package.archive}\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    with pytest.raises(SystemExit, match="another SHA-512"):
        vendor.fetched(package, tmp_path)


def test_both_pages_have_the_same_uplot() -> None:
    report = resources.files("karpenter.simulate.report") / "static" / "uplot"

    for name in ("uPlot.iife.min.js", "uPlot.min.css"):
        assert (vendor.VENDOR / name).read_bytes() == (report / name).read_bytes()


def test_the_bill_of_materials_names_them(tmp_path: Path) -> None:
    wheel = tmp_path / "karpenter-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("karpenter-1.dist-info/METADATA", "Name: karpenter\nVersion: 1\n")
        lock = (vendor.VENDOR / vendor.LOCK).read_text("utf-8")
        archive.writestr("karpenter/dashboard/web/vendor/LOCK.json", lock)

    components = wheels.sbom([wheels.Wheel(wheel)])["components"]

    assert "pkg:npm/%40preact/signals@2.11.4" in [each["purl"] for each in components]
    assert all(128 == len(each["hashes"][0]["content"]) for each in components)

"""What is promised within a major version stands in text files; a change to it is seen, and needs a note."""

import pytest

import surfaces

CHANGELOG = """\
# Changelog

## Unreleased

### Added
- `new`

### Removed
- `--old` of `karpenter plan`: say `--new`.

### Upgrade notes
- `karpenter_some_total` counts otherwise.

## 1.0.0

### Removed
- `earlier`
"""


@pytest.mark.parametrize("name", sorted(surfaces.SURFACES))
def test_a_surface_is_what_the_file_says(name: str) -> None:
    written = (surfaces.FOLDER / f"{name}.txt").read_text("utf-8")

    assert written.count("\n") > 10
    assert written == surfaces.text(name), "run: python tools/surfaces.py"


@pytest.mark.parametrize("name", sorted(surfaces.SURFACES))
def test_what_a_release_had_is_still_there_or_has_a_note(name: str) -> None:
    file = surfaces.RELEASED / f"{name}.txt"
    released = file.read_text("utf-8") if file.exists() else ""  # nothing is released yet
    said = surfaces.notes((surfaces.ROOT / "CHANGELOG.md").read_text("utf-8"))

    assert [] == surfaces.unnoted(released, surfaces.text(name), said)


def test_a_line_that_went_or_changed_without_a_note_is_found() -> None:
    said = surfaces.notes(CHANGELOG)
    released = "--old  flag\nearlier\nkarpenter_some_total  counter pool\nnew\nstays  string\nother  string\n"
    current = "karpenter_some_total  counter zone\nstays  string\nother  integer\nmore\n"

    assert ["earlier", "new", "other  string"] == surfaces.unnoted(released, current, said)
    assert [] == surfaces.unnoted(current, f"{current}yet more\n", "")


def test_surfaces_name_what_is_promised() -> None:
    assert "karpenter plan --only  value\n" in surfaces.text("commands")
    assert "gate NodeRepair  off\n" in surfaces.text("settings")
    assert "plan provisioning.deferred[].reason=NextPass\n" in surfaces.text("documents")
    assert "FailedScheduling  Warning " in surfaces.text("events")
    assert "NodePool v1 spec.template.spec.expireAfter  string\n" in surfaces.text("kinds")
    assert "karpenter settings.clusterName  string\n" in surfaces.text("values")
    assert "karpenter_nodeclaims_created_total  counter " in surfaces.text("metrics")

"""Kubernetes' CEL functions on semantic versions answer as they do in Kubernetes."""

import pytest

from unit.admission.cel.test_engine_cel_library import outcome


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("semver('1.2.3').major()", 1),
        ("semver('1.2.3').minor()", 2),
        ("semver('1.2.3').patch()", 3),
        ("semver('1.2.3') == semver('1.2.3')", True),
        ("semver('1.10.0').isGreaterThan(semver('1.9.9'))", True),
        ("semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))", True),
        ("semver('1.0.0-rc.2').isLessThan(semver('1.0.0-rc.10'))", True),
        ("semver('1.0.0-1').compareTo(semver('1.0.0-a'))", -1),
        ("semver('1.0.0-a').compareTo(semver('1.0.0-a.1'))", -1),
        ("semver('1.0.0+one').compareTo(semver('1.0.0+two'))", 0),
        ("semver('v1.2', true).compareTo(semver('1.2.0'))", 0),
        ("semver('01.2.3', true).major()", 1),
        ("isSemver('1.2.3-a.b+c')", True),
        ("isSemver('1.2')", False),
        ("isSemver('01.2.3')", False),
        ("isSemver('v1.2', true)", True),
        ("isSemver('one', true)", False),
        ("semver('1.2').major()", "error: invalid semantic version '1.2'"),
        ("semver('1.2.3').compareTo(quantity('1'))", "error: no such overload"),
        ("quantity('1').isLessThan(quantity('2'))", True),
        ("quantity('2').isGreaterThan(quantity('2'))", False),
        ("quantity('2').major()", "error: no such overload"),
    ],
)
def test_versions(source: str, expected: object) -> None:
    assert expected == outcome(source)

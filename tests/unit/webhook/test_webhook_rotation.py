"""What the Secret holds next: leaves are renewed in time, authorities change in three steps."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from karpenter.webhook.certificates import (
    Certificate,
    make_authority,
    make_leaf,
    read_certificates,
    service_names,
)
from karpenter.webhook.rotation import Holdings, next_holdings, read_holdings, written

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NAMES = service_names("karpenter", "kube-system")
DAY = timedelta(days=1)


def first(now: datetime = NOW) -> Holdings:
    return next_holdings(Holdings(), now, NAMES, is_trusted=False)


def leaf_of(holdings: Holdings) -> Certificate:
    assert holdings.leaf is not None
    return holdings.leaf


def test_an_empty_secret_gets_an_authority_for_ten_years_and_a_leaf_for_ninety_days() -> None:
    made = first()

    (authority,) = made.authorities
    leaf = leaf_of(made)
    assert authority.expires - NOW == 3650 * DAY
    assert leaf.expires - NOW == 90 * DAY
    assert leaf.is_signed_by(authority)
    assert leaf.has_own_key
    assert leaf.names == {
        "karpenter.kube-system.svc",
        "karpenter.kube-system.svc.cluster.local",
        "karpenter.kube-system",
    }


def test_certificates_say_what_they_are_for() -> None:
    made = first()
    authority = x509.load_pem_x509_certificate(made.authorities[0].pem)
    leaf = x509.load_pem_x509_certificate(leaf_of(made).pem)

    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (
        True,
        True,
        0,
    )
    assert leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False


def test_a_clock_that_is_an_hour_late_accepts_a_new_certificate() -> None:
    assert leaf_of(first()).is_valid(NOW - timedelta(minutes=59))


def test_what_is_written_is_read_again() -> None:
    made = first()

    assert read_holdings(written(made)) == made


@pytest.mark.parametrize("days", [0, 1, 59])
def test_nothing_changes_before_it_must(days: int) -> None:
    made = first()

    assert next_holdings(made, NOW + days * DAY, NAMES, is_trusted=True) is made


@pytest.mark.parametrize("days", [60, 75, 89, 90, 200])
def test_a_leaf_is_renewed_after_sixty_days_by_the_same_authority(days: int) -> None:
    made = first()

    after = next_holdings(made, NOW + days * DAY, NAMES, is_trusted=True)

    assert after.authorities == made.authorities
    assert leaf_of(after).expires == NOW + (days + 90) * DAY
    assert leaf_of(after).is_signed_by(made.authorities[0])


def test_an_authority_changes_in_three_steps() -> None:
    old = first()
    now = NOW + (3650 - 365) * DAY
    shown = Holdings(old.authorities, make_leaf(old.authorities[0], NAMES, now - DAY))

    both = next_holdings(shown, now, NAMES, is_trusted=True)
    assert [each.pem for each in both.authorities[1:]] == [old.authorities[0].pem]
    assert both.leaf == shown.leaf
    # until API servers know both, the leaf stays
    assert next_holdings(both, now, NAMES, is_trusted=False) is both

    moved = next_holdings(both, now, NAMES, is_trusted=True)
    assert moved.authorities == both.authorities
    assert leaf_of(moved).is_signed_by(both.authorities[0])
    # until replicas have had the time to show it, both stay trusted
    soon = now + timedelta(minutes=4)
    assert next_holdings(moved, soon, NAMES, is_trusted=True) is moved

    later = now + timedelta(minutes=5)
    assert next_holdings(moved, later, NAMES, is_trusted=False) is moved
    done = next_holdings(moved, later, NAMES, is_trusted=True)
    assert done.authorities == both.authorities[:1]
    assert done.leaf == moved.leaf


def test_only_the_key_that_signs_is_stored() -> None:
    old = first()
    both = next_holdings(old.without_signer(), NOW, NAMES, is_trusted=True)

    assert [bool(each.key_pem) for each in both.authorities] == [True, False]
    assert read_holdings(written(both)) == both


@pytest.mark.parametrize("part", ["tls.crt", "tls.key"])
def test_a_leaf_that_cannot_be_used_is_replaced_at_once(part: str) -> None:
    made = first()
    spoilt = read_holdings({**written(made), part: base64.b64encode(b"nonsense").decode()})

    after = next_holdings(spoilt, NOW, NAMES, is_trusted=False)

    assert after.authorities == made.authorities
    assert leaf_of(after).has_own_key
    assert leaf_of(after).is_signed_by(made.authorities[0])


def test_a_leaf_for_another_service_is_replaced() -> None:
    made = first()

    after = next_holdings(made, NOW, service_names("other", "kube-system"), is_trusted=False)

    assert "other.kube-system.svc" in leaf_of(after).names


def test_a_lost_key_of_the_authority_makes_a_new_one_beside_it() -> None:
    made = first()
    spoilt = read_holdings({**written(made), "ca.key": "!"})

    after = next_holdings(spoilt, NOW, NAMES, is_trusted=False)

    assert len(after.authorities) == 2
    assert after.leaf == made.leaf
    assert after.authorities[1].pem == made.authorities[0].pem


def test_a_foreign_leaf_is_not_kept() -> None:
    made = first()
    stranger = make_leaf(make_authority(NOW), NAMES, NOW)

    after = next_holdings(Holdings(made.authorities, stranger), NOW, NAMES, is_trusted=True)

    assert leaf_of(after).is_signed_by(made.authorities[0])


def test_an_expired_authority_is_neither_used_nor_trusted() -> None:
    made = first()

    after = next_holdings(made, NOW + 3650 * DAY, NAMES, is_trusted=True)

    assert len(after.authorities) == 1
    assert after.authorities[0].pem != made.authorities[0].pem


@pytest.mark.parametrize(
    "data", [{}, {"ca.crt": "%%"}, {"tls.crt": "bm9uc2Vuc2U="}, {"ca.crt": "ä"}, {"tls.key": ""}]
)
def test_a_secret_that_cannot_be_read_counts_as_empty(data: dict[str, str]) -> None:
    assert read_holdings(data) == Holdings()


def test_a_bundle_lists_every_authority() -> None:
    both = next_holdings(first().without_signer(), NOW, NAMES, is_trusted=True)

    assert len(read_certificates(both.bundle)) == 2

"""String formats accept what the API server accepts."""

from datetime import UTC, datetime

import pytest

from karpenter.admission.schemas.formats import FORMATS, date_time


@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [
        ("byte", ["", "aGk="], ["a", "a*=="]),
        ("cidr", ["10.0.0.0/8", "::/0", "10.1.2.3/8"], ["10.0.0.0", "10.0.0.0/33", "a/8"]),
        ("date", ["2026-02-28"], ["2026-02-30", "20260228", "2026-2-8"]),
        (
            "date-time",
            ["2026-01-02T03:04:05Z", "2026-01-02t03:04:05.123456789+01:00"],
            ["2026-01-02", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z", "2026-01-02 03:04:05Z"],
        ),
        ("duration", ["1h30m", "0s", "-1.5h", "300ms"], ["1d", "5", ""]),
        ("email", ["a@example.com"], ["a", "a@b@c", "@a"]),
        ("hexcolor", ["#fff", "00FF00"], ["#ff", "red"]),
        ("hostname", ["a.example.com", "localhost"], ["-a", "a_b", ""]),
        ("ipv4", ["10.0.0.1"], ["10.0.0", "::1"]),
        ("ipv6", ["::1"], ["10.0.0.1", ":::"]),
        ("k8s-long-name", ["a.b-c"], ["A", "a_b", "a" * 254]),
        ("k8s-short-name", ["a-b"], ["a.b", "a" * 64]),
        (
            "mac",
            ["01:23:45:67:89:ab", "01-23-45-67-89-AB"],
            ["01:23:45:67:89", "01:23-45:67:89:ab"],
        ),
        ("rgbcolor", ["rgb(1, 2, 255)"], ["rgb(1,2)", "rgb(1,2,256)"]),
        ("uri", ["https://example.com/a", "/a/b"], ["a b", "http://[::1"]),
        ("uuid", ["123e4567-e89b-42d3-a456-426614174000"], ["123e4567"]),
        (
            "uuid3",
            ["123e4567-e89b-32d3-a456-426614174000"],
            ["123e4567-e89b-42d3-a456-426614174000"],
        ),
        (
            "uuid4",
            ["123e4567-e89b-42d3-a456-426614174000"],
            ["123e4567-e89b-32d3-a456-426614174000"],
        ),
        (
            "uuid5",
            ["123e4567-e89b-52d3-a456-426614174000"],
            ["123e4567-e89b-32d3-a456-426614174000"],
        ),
    ],
)
def test_format(name: str, accepted: list[str], refused: list[str]) -> None:
    found = [text for text in (*accepted, *refused) if FORMATS[name](text)]

    assert accepted == found


def test_nanoseconds_are_cut_to_microseconds() -> None:
    expected = datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)

    assert expected == date_time("2026-01-02T03:04:05.123456789Z")

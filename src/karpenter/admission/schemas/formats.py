"""The string formats that the API server checks; all others are ignored, as by the server."""

import base64
import binascii
import ipaddress
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from karpenter.model import durations

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
DNS_LABEL: Final = re.compile(_LABEL)
DNS_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
LONGEST_SUBDOMAIN: Final = 253

_DATE_TIME: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})", re.ASCII
)
_EXTRA_DIGITS: Final = re.compile(r"(\.\d{6})\d+")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+")
_HOSTNAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9.]*[A-Za-z0-9])?")
_MAC: Final = re.compile(r"[0-9A-Fa-f]{2}(?:([:-])[0-9A-Fa-f]{2})(?:\1[0-9A-Fa-f]{2}){4}")
_HEX_COLOUR: Final = re.compile(r"#?(?:[0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})")
_BYTE: Final = r"\s*(?:[01]?\d?\d|2[0-4]\d|25[0-5])\s*"
_RGB_COLOUR: Final = re.compile(rf"rgb\({_BYTE},{_BYTE},{_BYTE}\)", re.ASCII)


def date_time(text: str) -> datetime | None:
    """Read a time in the format of RFC 3339, or return None when ``text`` is not one."""
    if not _DATE_TIME.fullmatch(text):
        return None
    try:
        # Python keeps microseconds only; Kubernetes writes up to nanoseconds
        return datetime.fromisoformat(_EXTRA_DIGITS.sub(r"\1", text.upper()))
    except ValueError:
        return None


def _is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and _reads(date.fromisoformat)(text)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_uuid(version: int | None) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        try:
            parsed = uuid.UUID(text)
        except ValueError:
            return False
        return version is None or parsed.version == version

    return accepts


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _is_subdomain(text: str) -> bool:
    return len(text) <= LONGEST_SUBDOMAIN and DNS_SUBDOMAIN.fullmatch(text) is not None


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _reads(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return accepts


FORMATS: Final[Mapping[str, Callable[[str], bool]]] = MappingProxyType(
    {
        "byte": _is_base64,
        "cidr": lambda text: "/" in text and _reads(ipaddress.ip_interface)(text),
        "date": _is_date,
        "date-time": lambda text: date_time(text) is not None,
        "duration": durations.is_duration,
        "email": _matches(_EMAIL),
        "hexcolor": _matches(_HEX_COLOUR),
        "hostname": lambda text: len(text) <= LONGEST_SUBDOMAIN and bool(_HOSTNAME.fullmatch(text)),
        "ipv4": _reads(ipaddress.IPv4Address),
        "ipv6": _reads(ipaddress.IPv6Address),
        "k8s-long-name": _is_subdomain,
        "k8s-short-name": _matches(DNS_LABEL),
        "mac": _matches(_MAC),
        "rgbcolor": _matches(_RGB_COLOUR),
        "uri": _is_uri,
        "uuid": _is_uuid(None),
        "uuid3": _is_uuid(3),
        "uuid4": _is_uuid(4),
        "uuid5": _is_uuid(5),
    }
)

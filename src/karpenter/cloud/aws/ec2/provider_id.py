"""How instances are named: ``aws:///us-west-2a/i-0123456789abcdef0``."""

import re
from typing import Final

_PREFIX: Final = "aws:///"
_SHAPE: Final = re.compile(r"aws:///[^/]+/(i-[0-9a-z]+)")


def provider_id(zone: str, instance_id: str) -> str:
    """The provider id of an instance."""
    return f"{_PREFIX}{zone}/{instance_id}"


def instance_id_of(text: str) -> str:
    """The instance a provider id names; nothing when it names none."""
    found = _SHAPE.fullmatch(text)
    return "" if found is None else found[1]

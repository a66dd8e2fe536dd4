"""Whether text names a server, so that a connection to it can at least be tried."""

from urllib.parse import urlsplit


def is_url(text: str) -> bool:
    """Whether text is a URL of a server that speaks HTTP, with TLS or without."""
    try:
        parts = urlsplit(text)
        is_usable = parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        return False
    return is_usable and is_host(parts.hostname or "")


def is_host(name: str) -> bool:
    """Whether text can be the name or the address of a host."""
    try:
        return bool(name.encode("idna"))
    except UnicodeError:
        return False

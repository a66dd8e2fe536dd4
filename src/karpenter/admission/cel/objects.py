"""Kubernetes' CEL functions on quantities, URLs, IP addresses and CIDR blocks.

The engine has no types for these, so each is represented as a map with a single entry whose text is
canonical; equal values are therefore equal maps.
"""

import ipaddress
from collections.abc import Callable, Mapping
from decimal import Decimal, localcontext
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from urllib.parse import SplitResult, parse_qs, urlsplit

from karpenter.admission.cel.text import CelError
from karpenter.model.quantity import QuantityError, is_quantity, parse

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Block: TypeAlias = ipaddress.IPv4Interface | ipaddress.IPv6Interface
_Wrapped: TypeAlias = dict[str, str]

_EXACT_DIGITS: Final = 60
_LARGEST: Final = 2**63 - 1


def _quantity(text: Any) -> _Wrapped:
    try:
        return _wrap_quantity(parse(text))
    except QuantityError as error:
        raise CelError(f"quantity parse error: {error}") from error


def _wrap_quantity(amount: Decimal) -> _Wrapped:
    with localcontext(prec=_EXACT_DIGITS):
        return {"quantity": format(amount.normalize() + 0, "f")}


def _amount(value: Any) -> Decimal:
    return Decimal(_unwrap(value, "quantity"))


def _is_integer(value: Any) -> bool:
    amount = _amount(value)
    return amount == amount.to_integral_value() and abs(amount) <= _LARGEST


def _as_integer(value: Any) -> int:
    if not _is_integer(value):
        raise CelError("cannot convert value to integer")
    return int(_amount(value))


def _add(left: Any, right: Any) -> _Wrapped:
    with localcontext(prec=_EXACT_DIGITS):
        return _wrap_quantity(_amount(left) + _operand(right))


def _subtract(left: Any, right: Any) -> _Wrapped:
    with localcontext(prec=_EXACT_DIGITS):
        return _wrap_quantity(_amount(left) - _operand(right))


def _operand(value: Any) -> Decimal:
    return Decimal(value) if isinstance(value, int) else _amount(value)


def _compare(left: Any, right: Any) -> int:
    one, other = _amount(left), _amount(right)
    return (one > other) - (one < other)


def _sign(value: Any) -> int:
    amount = _amount(value)
    return (amount > 0) - (amount < 0)


def _url(text: str) -> _Wrapped:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise CelError(f"URL parse error during conversion from string: {error}") from error
    if not parts.scheme and not text.startswith("/"):
        raise CelError(f'URL parse error during conversion from string: parse "{text}"')
    return {"url": text}


def _parts(value: Any) -> SplitResult:
    return urlsplit(_unwrap(value, "url"))


def _port(value: Any) -> str:
    port = _parts(value).port
    return "" if port is None else str(port)


def _host(value: Any) -> str:
    return _parts(value).netloc.rpartition("@")[2]


def _ip(value: Any) -> _Wrapped:
    if isinstance(value, dict):
        return {"ip": str(_block(value).ip)}
    try:
        return {"ip": str(ipaddress.ip_address(value))}
    except ValueError as error:
        raise CelError(f"IP Address parse error: {error}") from error


def _address(value: Any) -> _Address:
    text = value if isinstance(value, str) else _unwrap(value, "ip")
    return ipaddress.ip_address(text)


def _is_canonical(text: str) -> bool:
    return _unwrap(_ip(text), "ip") == text


def _is_global_unicast(value: Any) -> bool:
    address = _address(value)
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or str(address) == "255.255.255.255"
    )


def _cidr(text: str) -> _Wrapped:
    try:
        if "/" in text:
            return {"cidr": str(ipaddress.ip_interface(text))}
    except ValueError as error:
        raise CelError(f"network address parse error: {error}") from error
    raise CelError(f"network address parse error: {text!r} has no prefix length")


def _block(value: Any) -> _Block:
    text = value if isinstance(value, str) else _unwrap(value, "cidr")
    return ipaddress.ip_interface(text)


def _contains_cidr(value: Any, other: Any) -> bool:
    outer, inner = _block(value).network, _block(other).network
    return (
        outer.version == inner.version
        and outer.prefixlen <= inner.prefixlen
        and inner.network_address in outer
    )


def _reads(function: Callable[[Any], object]) -> Callable[[Any], bool]:
    def accepts(text: Any) -> bool:
        try:
            function(text)
        except CelError:
            return False
        return True

    return accepts


def _unwrap(value: Any, kind: str) -> str:
    if isinstance(value, dict) and isinstance(value.get(kind), str):
        return str(value[kind])
    raise TypeError(f"not a {kind}")


OBJECT_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "add": _add,
        "asApproximateFloat": lambda value: float(_amount(value)),
        "asInteger": _as_integer,
        "cidr": _cidr,
        "compareTo": _compare,
        "containsCIDR": _contains_cidr,
        "containsIP": lambda value, address: _address(address) in _block(value).network,
        "family": lambda value: _address(value).version,
        "getEscapedPath": lambda value: _parts(value).path,
        "getHost": _host,
        "getHostname": lambda value: _parts(value).hostname or "",
        "getPort": _port,
        "getQuery": lambda value: parse_qs(_parts(value).query, keep_blank_values=True),
        "getScheme": lambda value: _parts(value).scheme,
        "ip": _ip,
        "ip.isCanonical": _is_canonical,
        "isCIDR": _reads(_cidr),
        "isGlobalUnicast": _is_global_unicast,
        "isGreaterThan": lambda left, right: _compare(left, right) > 0,
        "isIP": _reads(_ip),
        "isInteger": _is_integer,
        "isLessThan": lambda left, right: _compare(left, right) < 0,
        "isLinkLocalMulticast": lambda value: str(_address(value)).startswith(
            ("224.0.0.", "ff02:")
        ),
        "isLinkLocalUnicast": lambda value: _address(value).is_link_local,
        "isLoopback": lambda value: _address(value).is_loopback,
        "isQuantity": is_quantity,
        "isURL": _reads(_url),
        "isUnspecified": lambda value: _address(value).is_unspecified,
        "masked": lambda value: {"cidr": str(_block(value).network)},
        "prefixLength": lambda value: _block(value).network.prefixlen,
        "quantity": _quantity,
        "sign": _sign,
        "sub": _subtract,
        "url": _url,
    }
)

"""Names, keys and values: what they may consist of, and how an API server says what is wrong."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from karpenter.model.memo import remembered

Problems = Sequence[str]
Rule = Callable[[str], Problems]

# Size of the caches: the same names and labels are checked with every write
_REMEMBERED: Final = 8192

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_SERVICE: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"
_CONFIG_KEY: Final = r"[-._a-zA-Z0-9]+"
_PORT: Final = "[-a-z0-9]+"
_LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253
_LONGEST_PORT: Final = 15

_KEY_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character"
)


@remembered(_REMEMBERED)
def dns_label(value: str) -> Problems:
    """What keeps a value from being a label in DNS."""
    problems = [*_too_long(value, _LONGEST_LABEL, "characters")]
    if re.fullmatch(_LABEL, value):
        return problems
    if re.fullmatch(_SUBDOMAIN, value):
        return [*problems, "must not contain dots"]
    rule = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-',"
        " and must start and end with an alphanumeric character"
    )
    return [*problems, _pattern(rule, _LABEL, "my-name", "123-abc")]


@remembered(_REMEMBERED)
def dns_subdomain(value: str) -> Problems:
    """What keeps a value from being a subdomain in DNS."""
    rule = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters,"
        " '-' or '.', and must start and end with an alphanumeric character"
    )
    problems = [*_too_long(value, _LONGEST_SUBDOMAIN, "characters")]
    return [*problems, *_unmatched(value, _SUBDOMAIN, rule, "example.com")]


def service_name(value: str) -> Problems:
    """What keeps a value from being the name of a service."""
    rule = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with"
        " an alphabetic character, and end with an alphanumeric character"
    )
    problems = [*_too_long(value, _LONGEST_LABEL, "characters")]
    return [*problems, *_unmatched(value, _SERVICE, rule, "my-name", "abc-123")]


def _unmatched(value: str, pattern: str, rule: str, *examples: str) -> Problems:
    return [] if re.fullmatch(pattern, value) else [_pattern(rule, pattern, *examples)]


def path_segment(value: str) -> Problems:
    """What keeps a value from standing in a path."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{sign}'" for sign in ("/", "%") if sign in value]


@remembered(_REMEMBERED)
def label_key(value: str) -> Problems:
    """What keeps a value from being the key of a label."""
    problems: list[str] = []
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        pattern = _pattern(_KEY_RULE, _KEY, "MyName", "my.name", "123-abc")
        prefixed = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {pattern} {prefixed}"]
    if slash:
        found = dns_subdomain(prefix) if prefix else ["must be non-empty"]
        # Names are measured in characters, keys in bytes
        found = [problem.replace(" characters", " bytes") for problem in found]
        problems.extend(f"prefix part {problem}" for problem in found)
    if not name:
        problems.append("name part must be non-empty")
    problems.extend(f"name part {problem}" for problem in _too_long(name, _LONGEST_LABEL))
    if not re.fullmatch(_KEY, name):
        pattern = _pattern(_KEY_RULE, _KEY, "MyName", "my.name", "123-abc")
        problems.append(f"name part {pattern}")
    return problems


@remembered(_REMEMBERED)
def label_value(value: str) -> Problems:
    """What keeps a value from being the value of a label."""
    problems = [*_too_long(value, _LONGEST_LABEL)]
    if not re.fullmatch(_VALUE, value):
        rule = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_'"
            " or '.', and must start and end with an alphanumeric character"
        )
        problems.append(_pattern(rule, _VALUE, "MyValue", "my_value", "12345"))
    return problems


def config_key(value: str) -> Problems:
    """What keeps a value from being a key of a ConfigMap or Secret."""
    problems = [*_too_long(value, _LONGEST_SUBDOMAIN, "characters")]
    if not re.fullmatch(_CONFIG_KEY, value):
        rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        problems.append(_pattern(rule, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    elif value == ".":
        problems.append("must not be '.'")
    elif value.startswith(".."):
        problems.append("must not be '..'" if value == ".." else "must not start with '..'")
    return problems


def port_name(value: str) -> Problems:
    """What keeps a value from naming a port."""
    problems = []
    if len(value) > _LONGEST_PORT:
        problems.append(f"must be no more than {_LONGEST_PORT} characters")
    if not re.fullmatch(_PORT, value):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        problems.append("must contain at least one letter (a-z)")
    if "--" in value:
        problems.append("must not contain consecutive hyphens")
    if value[:1] == "-" or value[-1:] == "-":
        problems.append("must not begin or end with a hyphen")
    return problems


def port_number(value: int) -> Problems:
    """What keeps a number from being a port."""
    return [] if 0 < value < 65536 else ["must be between 1 and 65535, inclusive"]


def _too_long(value: str, limit: int, unit: str = "bytes") -> Problems:
    is_too_long = len(value.encode(errors="surrogatepass")) > limit
    return [f"must be no more than {limit} {unit}"] if is_too_long else []


def _pattern(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"

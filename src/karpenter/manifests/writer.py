"""Objects to YAML text that every YAML reader parses to the same values.

Block style, keys in the order given, no anchors, long lines unbroken, text of several lines as a
block. Text that any common reader would take for a number, a boolean, a date or null is quoted,
since readers differ in that. Invisible characters are escaped.
"""

from typing import Any

import yaml

from karpenter.manifests.scalars import ScalarError, plain
from karpenter.visible import has_hidden, in_yaml

_STRING = "tag:yaml.org,2002:str"


class _Dumper(yaml.SafeDumper):
    """PyYAML's Python dumper: libyaml's is optional and its output differs in details."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def dump(value: Any) -> str:
    """Return one YAML document without a leading ``---``."""
    text: str = yaml.dump(
        value,
        Dumper=_Dumper,
        allow_unicode=True,
        default_flow_style=False,
        sort_keys=False,
        width=2**31 - 1,
    )
    return in_yaml(text)


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    if has_hidden(text) or _is_ambiguous(text):
        style = '"'  # the only style with escapes
    return dumper.represent_scalar(_STRING, text, style=style)


def _is_ambiguous(text: str) -> bool:
    try:
        return plain(text) != text
    except ScalarError:
        return True


_Dumper.add_representer(str, _represent_text)

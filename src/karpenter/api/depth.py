"""JSON that is nested deeper than Python's decoders allow, made shallow.

Go reads ten thousand levels, so an API server may hold objects of which one field
(``managedFields``, a field of a custom resource that preserves unknown fields) is that deep; Python
follows about a thousand, and refuses the whole list that such an object is part of. No field the
project reads is deeper than a few dozen levels.
"""

import re
from typing import Final

DEEPEST: Final = 200
# Strings are matched so that brackets in them are skipped
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)


def without_depths(data: bytes, deepest: int = DEEPEST) -> bytes:
    """Return JSON with everything below ``deepest`` levels replaced by ``null``."""
    pieces: list[bytes] = []
    depth, kept, cut = 0, 0, 0
    for token in _TOKEN.finditer(data):
        match token[0]:
            case b"{" | b"[":
                depth += 1
                if depth == deepest + 1:
                    cut = token.start()
            case b"}" | b"]":
                if depth == deepest + 1:
                    pieces += (data[kept:cut], b"null")
                    kept = token.end()
                depth -= 1
    return b"".join((*pieces, data[kept:]))

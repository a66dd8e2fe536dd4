"""What to say where there is no object of a name: which one may be meant, or how many there are."""

import difflib
from collections.abc import Sequence

from karpenter.console.screen import in_order


def no_such(kind: str, name: str, known: Sequence[str]) -> str:
    """Say that there is no object of a name, in one sentence; ``known`` are those there are."""
    if not known:
        return f"there is no {kind} {name}: there are no {kind}s at all"
    begins = in_order(each for each in known if each.startswith(name))
    close = begins[:3] or difflib.get_close_matches(name, known, n=3)
    return f"there is no {kind} {name}{_meant(close, len(known))}"


def no_such_key(kind: str, name: str, keys: Sequence[str]) -> str:
    """The same for a kind with namespaces; ``keys`` are namespace/name."""
    if not keys:
        return f"there is no {kind} {name}: there are no {kind}s at all"
    bare = name.rpartition("/")[2]
    by_name = {key.partition("/")[2]: key for key in reversed(keys)}
    begins = in_order(each for each in by_name if each.startswith(f"{bare}-"))
    close = begins[:3] or difflib.get_close_matches(bare, by_name, n=3)
    return f"there is no {kind} {name}{_meant([by_name[each] for each in close], len(keys))}"


def _meant(close: Sequence[str], count: int) -> str:
    return f"; did you mean {', '.join(close)}?" if close else f" among the {count:,} there are"

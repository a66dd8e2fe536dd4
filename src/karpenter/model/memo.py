"""Caches of parsed texts, bounded in memory.

Names, labels and amounts repeat, and parsing them takes longer than a dictionary lookup. But they
are untrusted input: a cache that is bounded by the number of its entries alone may fill up with
huge texts. So only texts of ordinary length are cached.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, Final, ParamSpec, TypeVar, cast

Text = TypeVar("Text", str, bytes)
P = ParamSpec("P")
T = TypeVar("T")

# Longer than every legal name, key, value and amount
ORDINARY: Final = 512


def remembered(
    entries: int, *, longest: int = ORDINARY
) -> Callable[[Callable[Concatenate[Text, P], T]], Callable[Concatenate[Text, P], T]]:
    """Keep the results of a function of a text in an LRU cache, except for long texts.

    Args:
        entries: the size of the cache.
        longest: the length of the longest text whose result is cached.
    """

    def remembering(
        function: Callable[Concatenate[Text, P], T],
    ) -> Callable[Concatenate[Text, P], T]:
        # The cast: a ParamSpec cannot express that arguments are hashable
        known = cast(Callable[Concatenate[Text, P], T], lru_cache(maxsize=entries)(function))

        @wraps(function)
        def ask(text: Text, /, *args: P.args, **more: P.kwargs) -> T:
            if len(text) > longest:
                return function(text, *args, **more)
            return known(text, *args, **more)

        return ask

    return remembering

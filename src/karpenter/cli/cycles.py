"""How often Python looks for garbage that refers to itself.

A cluster is many small dictionaries that live long, and next to none of them refer back to
themselves. Looking among them as often as Python does by default takes a fifth of the time of a busy
cluster (``benchmarks/binding.py``) and finds nothing. This is a choice for a whole process, so it is
made by the program and not by a cluster.
"""

import gc
from typing import Final

# New objects between two looks at them, looks before one at older ones, and the same once more
_SELDOM: Final = (50_000, 20, 50)  # as little work as possible in all
_BRIEFLY: Final = (2_000, 10, 500)  # as little work as possible at a time


def collect_rarely() -> None:
    """Let the collector of this process look less often, and never at what is there now."""
    gc.freeze()
    gc.set_threshold(*_SELDOM)


def collect_briefly() -> None:
    """Let it look at few objects at a time, so that nobody waits long, and hardly ever at all."""
    gc.freeze()
    gc.set_threshold(*_BRIEFLY)

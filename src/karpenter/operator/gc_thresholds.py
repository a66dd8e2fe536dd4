"""Thresholds of Python's cyclic garbage collector.

A cluster is many small, long-lived dictionaries with hardly any reference cycles. With Python's
default thresholds, collections take a fifth of the time of a busy cluster
(``benchmarks/binding.py``) and find nothing. The thresholds are process-wide, so the program sets
them, not a cluster.
"""

import gc
from typing import Final

# The gc thresholds of the three generations
_SELDOM: Final = (50_000, 20, 50)  # least total work
_BRIEFLY: Final = (2_000, 10, 500)  # shortest pauses


def collect_rarely() -> None:
    """Collect rarely, and freeze all present objects so that they are never scanned."""
    gc.freeze()
    gc.set_threshold(*_SELDOM)


def collect_briefly() -> None:
    """Keep pauses short: small young generations, and full collections hardly ever."""
    gc.freeze()
    gc.set_threshold(*_BRIEFLY)

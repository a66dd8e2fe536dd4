"""What the name of an instance type says: category, generation, family, size."""

import re
from typing import Final

from karpenter.model.remembered import remembered

_SHAPE: Final = re.compile(r"^([a-z]+)(-[0-9]+tb)?([0-9]+).*\.")


@remembered(4096)
def category_and_generation(name: str) -> tuple[str, str] | None:
    """``m5.large`` is m and 5, ``u-6tb1.56xlarge`` is u and 1; None for a name unlike these."""
    found = _SHAPE.match(name)
    return None if found is None else (found[1], found[3])


def family_and_size(name: str) -> tuple[str, str]:
    """``m5.large`` is m5 and large."""
    family, _, size = name.partition(".")
    return family, size

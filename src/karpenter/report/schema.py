"""The JSON Schema of what ``karpenter plan -o json`` prints, as it is shipped."""

from importlib import resources
from typing import Final

_FILE: Final = "plan.schema.json"


def plan_schema() -> str:
    """The schema as text."""
    return resources.files("karpenter.report").joinpath(_FILE).read_text(encoding="utf-8")

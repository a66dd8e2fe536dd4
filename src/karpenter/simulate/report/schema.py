"""The JSON Schema of a report; closed, so that a field nobody has written down is an error."""

import json
from importlib import resources
from typing import Final

from karpenter.api.meta import JsonObject

_FILE: Final = "report.schema.json"


def schema() -> JsonObject:
    """The schema of ``karpenter simulate -o json``."""
    found: JsonObject = json.loads((resources.files(__package__) / _FILE).read_text("utf-8"))
    return found

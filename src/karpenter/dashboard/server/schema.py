"""The JSON Schema of everything the routes answer, made of the contract itself."""

from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from karpenter.dashboard import contract

_DOCUMENTS: Final = (
    contract.View,
    contract.Delta,
    contract.Hello,
    contract.Resync,
    contract.Ping,
    contract.Refusal,
    contract.Records,
    contract.Costs,
    contract.Answer,
    contract.WhatIfRequest,
    contract.WhatIfAnswer,
    contract.About,
)


@cache
def schema() -> dict[str, Any]:
    """The schema; ``$defs`` has one entry for every document."""
    _, definitions = msgspec.json.schema_components(_DOCUMENTS, ref_template="#/$defs/{name}")
    reports = files("karpenter.report")
    for name in ("plan", "decision"):
        definitions[name] = msgspec.json.decode((reports / f"{name}.schema.json").read_bytes())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What the dashboard's routes answer",
        "$defs": definitions,
    }

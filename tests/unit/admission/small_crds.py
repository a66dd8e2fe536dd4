"""CRDs with just the schema a test is about, and objects of their kind."""

from typing import Any

from karpenter.admission.schemas.engine import CompiledVersion, compile_crd
from karpenter.admission.schemas.schema import CrdError

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
GENERIC = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def crd(spec: dict[str, Any], **root: Any) -> dict[str, Any]:
    """A CRD for the kind Widget whose ``spec`` has the given schema."""
    schema = {
        "type": "object",
        "properties": {
            "apiVersion": TEXT,
            "kind": TEXT,
            "metadata": {"type": "object"},
            "spec": spec,
        },
        **root,
    }
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Cluster",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def compiled(spec: dict[str, Any], **root: Any) -> CompiledVersion:
    """The compiled version of a Widget whose ``spec`` has the given schema."""
    return compile_crd(crd(spec, **root))["v1"]


def fields(**properties: Any) -> dict[str, Any]:
    """The schema of an object with these properties."""
    return {"type": "object", "properties": properties}


def list_of(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def map_of(values: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values, **more}


def ruled(schema: dict[str, Any], *rules: str | dict[str, Any]) -> dict[str, Any]:
    """A schema with rules; a bare text is a rule without a message."""
    written = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    return {**schema, "x-kubernetes-validations": written}


def widget(spec: Any = None, **more: Any) -> dict[str, Any]:
    """A Widget; without ``spec`` it has none."""
    obj: dict[str, Any] = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "one"},
    }
    return obj | ({} if spec is None else {"spec": spec}) | more


def complaints(schema: dict[str, Any], spec: Any, old: Any = None) -> list[str]:
    """What is wrong with a Widget of this ``spec``, one line per error."""
    before = None if old is None else widget(old)
    return [str(error) for error in compiled(schema).validate(widget(spec), before)]


def crd_problems(spec: dict[str, Any]) -> list[str]:
    """Why a CRD cannot be served, one line per error; paths begin below the schema of ``spec``."""
    prefix = "spec.versions[0].schema.openAPIV3Schema.properties.spec."
    try:
        compile_crd(crd(spec))
    except CrdError as error:
        return [str(problem).removeprefix(prefix) for problem in error.errors]
    return []

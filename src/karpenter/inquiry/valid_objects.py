"""Objects that no check has anything to say about, recognised in one pass over their text.

Nearly all objects of a dump are such. Saying what is wrong with the others, and on which line, takes
the plain values of an object and a walk over them; recognising the good ones takes neither. A wire
model and a type with all fields of the kind are decoded straight from the text, and what is left to
be checked is the same in many objects: labels, amounts, templates.

``resource`` answers None wherever it is not sure, and the long way decides. What it does answer is
what the long way would have made of the object without a finding; property tests compare the two.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import msgspec

from karpenter.admission.metadata import ValidMetadata
from karpenter.admission.quantities import has_sound_amounts
from karpenter.api.codec import is_known, model_for
from karpenter.api.meta import Resource
from karpenter.inquiry.core_kinds import PLACING, broken_rules
from karpenter.inquiry.core_shapes import part, put, shape_of
from karpenter.manifests.jsonitems import Item
from karpenter.manifests.reader import Document
from karpenter_sandbox.kinds.schemas.structs import struct_of_kind
from karpenter_sandbox.kinds.validation.placing import placing_problems

_ANY: Final = {"any": "any"}  # in place of labels with nothing wrong
_ANY_IMAGE: Final = "any"
_MOST_REPLICAS: Final = 2**31 - 1
_encode: Final = msgspec.json.Encoder().encode
_plain: Final = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class _Kind:
    """How to decode objects of one kind."""

    api_version: str
    kind: str
    model: type[Resource]
    shape: type[msgspec.Struct]
    decode_model: Callable[[msgspec.Raw], Resource]
    decode_shape: Callable[[msgspec.Raw], Any]


class ValidObjects:
    """Recognises objects of Kubernetes' own kinds one after the other, and what they share."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], _Kind | None] = {}
        self._metadata = ValidMetadata()
        self._verdicts: dict[tuple[str, str, bytes], bool] = {}

    def resource(self, document: Document) -> Resource | None:
        """Return the wire model of an object without errors and warnings; None if in doubt."""
        if isinstance(document.content, Item):
            made = document.content.made
            return made if isinstance(made, Resource) else None
        kind = self._kind(document.api_version, document.kind)
        if kind is None:
            return None
        try:
            resource = msgspec.convert(document.content, kind.model)
            shape = msgspec.convert(document.content, kind.shape)
        except (msgspec.ValidationError, RecursionError):
            return None
        return self._if_sound(kind, resource, shape)

    def decoder(self, api_version: object, kind: object) -> Callable[[msgspec.Raw], Any] | None:
        """Return what decodes an object of a known kind into a type with all of its fields."""
        found = self._kind(api_version, kind)
        return None if found is None else found.decode_shape

    def made(
        self, api_version: object, kind: object, text: msgspec.Raw, value: Any
    ) -> Resource | None:
        """Return the wire model of an object without errors and warnings; None if in doubt."""
        found = self._kind(api_version, kind)
        assert found is not None, "its decoder was used"
        try:
            resource = found.decode_model(text)
        except (msgspec.ValidationError, RecursionError):
            return None
        return self._if_sound(found, resource, value)

    def _if_sound(self, kind: _Kind, resource: Resource, shape: Any) -> Resource | None:
        is_sound = (
            self._metadata.includes(resource.metadata)
            and has_sound_amounts(resource)
            and self._keeps_rules(kind, shape, is_stored=bool(resource.metadata.uid))
        )
        return resource if is_sound else None

    def _kind(self, api_version: object, kind: object) -> _Kind | None:
        if not isinstance(api_version, str) or not isinstance(kind, str):
            return None
        named = (api_version, kind)
        if named not in self._kinds:
            self._kinds[named] = _kind(api_version, kind)
        return self._kinds[named]

    def _keeps_rules(self, kind: _Kind, shape: Any, *, is_stored: bool) -> bool:
        """Whether no rule is broken; of equal templates and rules of placing, the first is asked."""
        is_placed = is_stored and kind.kind == "Pod"
        if is_placed:
            spec = part(shape, "spec")
            judged: Any = {key: found for key in PLACING if (found := part(spec, key))}
            if not judged:
                return True
        else:
            judged = shape
            put(shape, "metadata", msgspec.UNSET)
            put(shape, "status", msgspec.UNSET)
            self._generalise(shape)
        text = _encode(judged)
        key = (kind.api_version, kind.kind, text)
        verdict = self._verdicts.get(key)
        if verdict is None:
            values = _plain(text)
            verdict = not (
                any(placing_problems(values, ("spec",)))
                if is_placed
                else broken_rules(values, kind.api_version, kind.kind)
            )
            self._verdicts[key] = verdict
        return verdict

    def _generalise(self, shape: Any) -> None:
        """Take out of a workload what has been found good and tells it from others like it.

        Rules ask of labels only whether each is well formed and whether the selector matches them,
        of an image whether it is there, and of replicas that there are not too few.
        """
        spec = part(shape, "spec")
        selector, template = part(spec, "selector"), part(spec, "template")
        if part(selector, "matchLabels") is None or template is None:
            return
        metadata = part(template, "metadata")
        wanted, given = part(selector, "matchLabels"), part(metadata, "labels")
        if (
            given
            and wanted
            and not part(selector, "matchExpressions")
            and wanted.items() <= given.items()
            and self._metadata.labels(given)
        ):
            put(selector, "matchLabels", _ANY)
            put(metadata, "labels", _ANY)
        replicas = part(spec, "replicas")
        if replicas is not None and 0 <= replicas <= _MOST_REPLICAS:
            put(spec, "replicas", 1)
        for container in part(part(template, "spec"), "containers") or ():
            image = part(container, "image")
            if image and image == image.strip():
                put(container, "image", _ANY_IMAGE)


def _kind(api_version: str, kind: str) -> _Kind | None:
    found = struct_of_kind(api_version, kind)
    if found is None or not is_known(api_version, kind):
        return None
    model, shape = model_for(api_version, kind), shape_of(found.name)
    return _Kind(
        api_version,
        kind,
        model,
        shape,
        msgspec.json.Decoder(model).decode,
        msgspec.json.Decoder(shape, float_hook=_refuse_fraction).decode,
    )


def _refuse_fraction(text: str) -> NoReturn:
    """Leave an amount such as 1.0 to the reader of manifests, to which it is the whole number 1."""
    raise ValueError(text)

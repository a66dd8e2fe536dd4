"""The fast path for valid objects: those without a finding, recognised in one pass over their text.

Nearly all objects of a dump are valid. The slow path, which finds errors and their lines, decodes
an object to plain values and walks over them; the fast path does neither. It decodes a wire model
and a type with all fields of the kind straight from the text. The remaining checks, of labels,
amounts and templates, have the same input in many objects, so their results are cached.

``resource`` returns None in doubt, and the slow path decides. Otherwise it returns what the slow
path would return without a finding; property tests compare the two.
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn

import msgspec

from karpenter.admission.metadata import ValidMetadata
from karpenter.admission.quantities import amounts_test
from karpenter.api.codec import is_known, model_for
from karpenter.api.meta import Resource
from karpenter.api.pods import Pod, PodSpec
from karpenter.inquiry.core_kinds import PLACING, broken_rules
from karpenter.inquiry.core_shapes import part, put, shape_of
from karpenter.manifests.jsonitems import Item
from karpenter.manifests.reader import Document
from karpenter_sandbox.kinds.schemas.structs import Struct, struct_of_kind
from karpenter_sandbox.kinds.validation.placing import placing_problems

_ANY: Final = {"any": "any"}  # in place of labels with nothing wrong
_ANY_IMAGE: Final = "any"
_MOST_REPLICAS: Final = 2**31 - 1
_encode: Final = msgspec.json.Encoder().encode
_plain: Final = msgspec.json.Decoder().decode


class ValidObjects:
    """Recognises objects of Kubernetes' own kinds one after the other, and what they share."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], ValidKind | None] = {}
        self._metadata = ValidMetadata()

    def resource(self, document: Document) -> Resource | None:
        """Return the wire model of an object without errors and warnings; None if in doubt."""
        if isinstance(document.content, Item):
            made = document.content.made
            return made if isinstance(made, Resource) else None
        kind = self.of_kind(document.api_version, document.kind)
        return None if kind is None else kind.converted(document.content)

    def of_kind(self, api_version: object, kind: object) -> "ValidKind | None":
        """Return what recognises objects of a kind; None for a kind that is not known."""
        if not isinstance(api_version, str) or not isinstance(kind, str):
            return None
        named = (api_version, kind)
        if named not in self._kinds:
            struct = struct_of_kind(*named) if is_known(*named) else None
            self._kinds[named] = ValidKind(*named, struct, self._metadata) if struct else None
        return self._kinds[named]


class ValidKind:
    """Recognises objects of one kind."""

    def __init__(
        self, api_version: str, kind: str, struct: Struct, metadata: ValidMetadata
    ) -> None:
        """Get ready for the objects of a struct; ``metadata`` is shared by all kinds."""
        self._api_version = api_version
        self._kind = kind
        self._metadata = metadata
        self._model = model_for(api_version, kind)
        self._shape = shape_of(struct.name)
        self._has_sound_amounts = amounts_test(self._model)
        self._decode_model = msgspec.json.Decoder(self._model).decode
        self.decode = msgspec.json.Decoder(self._shape, float_hook=_refuse_fraction).decode
        self._verdicts: dict[bytes, bool] = {}  # by object without its particular fields
        self._placing_verdicts: dict[bytes, bool] = {}  # by scheduling constraints of pods

    def made(self, text: msgspec.Raw, value: Any) -> Resource | None:
        """Return the wire model of an object without errors and warnings; None if in doubt."""
        try:
            resource = self._decode_model(text)
        except (msgspec.ValidationError, RecursionError):
            return None
        return self._if_sound(resource, value)

    def converted(self, values: Mapping[str, Any]) -> Resource | None:
        """The same for an object in plain values."""
        try:
            resource = msgspec.convert(values, self._model)
            shape = msgspec.convert(values, self._shape)
        except (msgspec.ValidationError, RecursionError):
            return None
        return self._if_sound(resource, shape)

    def _if_sound(self, resource: Resource, shape: Any) -> Resource | None:
        is_sound = (
            self._metadata.includes(resource.metadata)
            and self._has_sound_amounts(resource)
            and self._keeps_rules(resource, shape)
        )
        return resource if is_sound else None

    def _keeps_rules(self, resource: Resource, shape: Any) -> bool:
        """Whether no rule is broken; cached for equal templates and scheduling constraints."""
        if isinstance(resource, Pod) and resource.metadata.uid:
            return not _is_particular(resource.spec) or self._keeps_placing_rules(shape)
        put(shape, "metadata", msgspec.UNSET)
        put(shape, "status", msgspec.UNSET)
        self._generalise(shape)
        text = _encode(shape)
        verdict = self._verdicts.get(text)
        if verdict is None:
            verdict = not broken_rules(_plain(text), self._api_version, self._kind)
            self._verdicts[text] = verdict
        return verdict

    def _keeps_placing_rules(self, shape: Any) -> bool:
        spec = part(shape, "spec")
        text = _encode({key: found for key in PLACING if (found := part(spec, key))})
        verdict = self._placing_verdicts.get(text)
        if verdict is None:
            verdict = not any(placing_problems(_plain(text), ("spec",)))
            self._placing_verdicts[text] = verdict
        return verdict

    def _generalise(self, shape: Any) -> None:
        """Normalise valid fields of a workload, so that similar workloads share a cache entry.

        Rules check of labels only whether each is well formed and whether the selector matches
        them, of an image whether it is present, and of replicas that they are not negative.
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


def _is_particular(spec: PodSpec) -> bool:
    """Whether a pod has tolerations, spread constraints or affinity."""
    return bool(spec.tolerations or spec.topology_spread_constraints or spec.affinity)


def _refuse_fraction(text: str) -> NoReturn:
    """Refuse a number such as 1.0, so that the slow path reads it, as the whole number 1."""
    raise ValueError(text)

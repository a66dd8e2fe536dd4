"""The objects of a scenario, judged as ``karpenter plan`` judges those of files."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from karpenter.admission.check import check
from karpenter.admission.errors import FieldError
from karpenter.api.meta import JsonObject
from karpenter.console.manifest_files import said, title_of
from karpenter.conversion.catalogue import Route, claim_of
from karpenter.inquiry.core_kinds import CoreKinds
from karpenter.manifests.positions import Path

_OLD = frozenset({Route.V1BETA1, Route.PROVISIONER, Route.NODE_TEMPLATE})
# Kinds that the cluster of a run serves and no plan reads
_OF_CLUSTERS = frozenset({("apiextensions.k8s.io/v1", "CustomResourceDefinition")})


@dataclass(slots=True)
class ObjectChecker:
    """Checks one object after the other."""

    provider: str
    _core: CoreKinds = field(default_factory=CoreKinds)

    def problems(self, obj: JsonObject) -> Iterator[tuple[Path, str]]:
        """What is wrong with an object, by field, with its title."""
        title = title_of(obj)
        for error in self._errors(obj):
            yield error.path, f"{title}{'' if error.path else ':'} {said(error)}"

    def _errors(self, obj: JsonObject) -> list[FieldError]:
        claim = claim_of(obj)
        if claim.errors or claim.route in _OLD:
            return list(claim.errors)
        if (obj.get("apiVersion"), obj.get("kind")) in _OF_CLUSTERS:
            return []
        found = check(obj, provider=self.provider)
        known = {error.path for error in found.errors}
        errors = list(found.errors)
        if claim.route is Route.OTHER and not errors:
            errors += [e for e in self._core.findings(found.object).errors if e.path not in known]
        return errors

"""The objects of a scenario, judged as ``karpenter plan`` judges those of files."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from karpenter.admission.check import check
from karpenter.admission.errors import Findings
from karpenter.api.meta import JsonObject
from karpenter.console.manifest_files import said, title_of
from karpenter.conversion.catalogue import Route, claim_of
from karpenter.inquiry.core_kinds import CoreKinds
from karpenter.manifests.positions import Path

_OLD = frozenset({Route.V1BETA1, Route.PROVISIONER, Route.NODE_TEMPLATE})
# Kinds that the cluster of a run serves and no plan reads
_OF_CLUSTERS = frozenset({("apiextensions.k8s.io/v1", "CustomResourceDefinition")})


@dataclass(frozen=True, slots=True)
class Remark:
    """What is to be said about a field of an object."""

    path: Path
    text: str
    is_error: bool


@dataclass(slots=True)
class ObjectChecker:
    """Checks one object after the other."""

    provider: str
    _core: CoreKinds = field(default_factory=CoreKinds)

    def remarks(self, obj: JsonObject) -> Iterator[Remark]:
        """What is wrong with an object, and what has no effect, by field, with its title."""
        title, found = title_of(obj), self._findings(obj)
        for error in found.errors:
            text = f"{title}{'' if error.path else ':'} {said(error)}"
            yield Remark(error.path, text, is_error=True)
        for warning in found.warnings:
            text = f"{title}{'' if warning.path else ':'} {warning}"
            yield Remark(warning.path, text, is_error=False)

    def _findings(self, obj: JsonObject) -> Findings:
        claim = claim_of(obj)
        if claim.errors or claim.route in _OLD:
            return Findings(list(claim.errors))
        if (obj.get("apiVersion"), obj.get("kind")) in _OF_CLUSTERS:
            return Findings()
        found = check(obj, provider=self.provider)
        if claim.route is Route.OTHER and not found.errors:
            of_core = self._core.findings(found.object)
            return Findings(of_core.errors, [*found.warnings, *of_core.warnings])
        return Findings(found.errors, found.warnings)

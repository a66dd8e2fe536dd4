"""Run a scenario on both clusters at once and keep what each answered."""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from differential.clusters import Answer, Cluster
from differential.comparing import Difference, differences
from differential.operations import Operation, Scenario
from karpenter.admission.schemas.crds import builtin_crds
from karpenter_sandbox.initial_objects import first_objects

_READY_SECONDS: Final = 30
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Compared:
    """The answers of both clusters to one operation."""

    operation: Operation
    sandbox: Answer
    real: Answer

    def differences(self) -> list[Difference]:
        """Where the answers differ."""
        return list(differences(self.sandbox, self.real))


def compare(scenario: Scenario, sandbox: Cluster, real: Cluster) -> Mapping[str, Compared]:
    """Carry out a scenario on both clusters, operation by operation."""
    compared: dict[str, Compared] = {}
    with ThreadPoolExecutor(2) as both:
        if scenario.namespace:
            list(both.map(lambda each: _make_namespace(each, scenario.namespace), (sandbox, real)))
        for operation in scenario.operations:
            here = both.submit(sandbox.perform, operation)
            there = both.submit(real.perform, operation)
            compared[operation.id] = Compared(operation, here.result(), there.result())
    return compared


def make_alike(real: Cluster) -> None:
    """Give a bare control plane what a sandbox has from the start."""
    for obj in (*first_objects(), *builtin_crds(legacy=False).values()):
        real.perform(Operation(id="", send=f"POST {_collection(obj)}", body=obj))


def _make_namespace(cluster: Cluster, name: str) -> None:
    """Create a namespace, and wait until pods can be created in it."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    cluster.perform(Operation(id="", send="POST /api/v1/namespaces", body=body))
    deadline = time.monotonic() + _READY_SECONDS
    while not cluster.exists(f"/api/v1/namespaces/{name}/serviceaccounts/default"):
        assert time.monotonic() < deadline, f"namespace {name} has no service account"
        time.sleep(_POLL_SECONDS)


def _collection(obj: Mapping[str, Any]) -> str:
    """Where objects like this one are created."""
    group, _, version = obj["apiVersion"].rpartition("/")
    namespace = obj["metadata"].get("namespace")
    parts = ("apis", group, version) if group else ("api", version)
    scope = ("namespaces", namespace) if namespace else ()
    plural = f"{obj['kind'].lower()}s".replace("classs", "classes")
    return "/" + "/".join((*parts, *scope, plural))

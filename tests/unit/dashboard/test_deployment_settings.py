"""A companion plans with what the controller's Deployment was told, as far as this version knows it."""

import json
from http import HTTPStatus
from typing import Any, NoReturn

import pytest

from karpenter.dashboard.homes.deployment_settings import deployment_settings
from karpenter.kube.errors import ConnectionLostError
from karpenter.kube.transport import Request, Response, Transport


def deployment(name: str, env: list[dict[str, Any]], container: str = "controller") -> Any:
    containers = [
        {"name": "proxy", "env": [{"name": "PREFERENCE_POLICY", "value": "Respect"}]},
        {"name": container, "env": env},
    ]
    return {
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"template": {"spec": {"containers": containers}}},
    }


class Listed(Transport):
    """Answers every request with these Deployments."""

    def __init__(self, *deployments: Any, status: int = HTTPStatus.OK) -> None:
        self.asked: list[Request] = []
        self._answer = Response(status, json.dumps({"items": deployments}).encode())

    async def send(self, request: Request) -> Response:
        self.asked.append(request)
        return self._answer

    def stream(self, request: Request) -> NoReturn:
        raise AssertionError(f"nothing is watched: {request.path}")

    async def close(self) -> None:
        """There is nothing to close."""


UPSTREAM: list[dict[str, Any]] = [
    {
        "name": "FEATURE_GATES",
        "value": "ReservedCapacity=true,SpotToSpotConsolidation=true,New=true",
    },
    {"name": "PREFERENCE_POLICY", "value": "Ignore"},
    {"name": "BATCH_IDLE_DURATION", "value": "3s"},
    {"name": "BATCH_MAX_DURATION", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
    {"name": "MIN_VALUES_POLICY", "value": "SomethingNewer"},
    {"name": "DATABASE_PASSWORD", "value": "hunter2"},
]


async def test_what_this_version_knows_of_the_environment_counts() -> None:
    transport = Listed(deployment("karpenter", UPSTREAM))

    assert await deployment_settings(transport) == {
        "FEATURE_GATES": "ReservedCapacity=true,SpotToSpotConsolidation=true",
        "PREFERENCE_POLICY": "Ignore",
        "BATCH_IDLE_DURATION": "3s",
    }
    assert [("GET", False)] == [(each.method, each.is_write) for each in transport.asked]


@pytest.mark.parametrize(
    "listed",
    [
        pytest.param((), id="no Deployment"),
        pytest.param((deployment("web", UPSTREAM, "web"),), id="no controller in it"),
        pytest.param(({"metadata": {}},), id="one without containers"),
        pytest.param(("text",), id="no object"),
        pytest.param(
            (deployment("a", UPSTREAM), deployment("b", [])), id="two that say different things"
        ),
    ],
)
async def test_nothing_counts_where_it_cannot_be_known(listed: tuple[Any, ...]) -> None:
    assert {} == await deployment_settings(Listed(*listed))


async def test_a_cluster_that_refuses_or_is_away_tells_nothing() -> None:
    class Away(Listed):
        async def send(self, request: Request) -> Response:
            raise ConnectionLostError("it is away")

    assert {} == await deployment_settings(Listed(status=HTTPStatus.FORBIDDEN))
    assert {} == await deployment_settings(Away())

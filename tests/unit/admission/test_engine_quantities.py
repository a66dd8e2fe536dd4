"""Amounts in Kubernetes' own kinds are quantities, and none is negative."""

from typing import Any

import pytest

from karpenter.admission.check import check


def amounts(**held: Any) -> dict[str, Any]:
    return {"name": "c", "resources": held}


def object_of(kind: str, api_version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, **fields}


def pod_template(container: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": [container]}}


BAD = amounts(requests={"cpu": "-1"})


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        pytest.param(
            object_of("Pod", "v1", spec={"containers": [BAD]}),
            "spec.containers[0].resources.requests.cpu",
            id="a container",
        ),
        pytest.param(
            object_of("Pod", "v1", spec={"containers": [], "initContainers": [amounts(), BAD]}),
            "spec.initContainers[1].resources.requests.cpu",
            id="an init container",
        ),
        pytest.param(
            object_of("Pod", "v1", spec={"containers": [], "overhead": {"memory": -5}}),
            "spec.overhead.memory",
            id="overhead",
        ),
        pytest.param(
            object_of(
                "Pod", "v1", spec={"containers": [], "resources": {"limits": {"cpu": "-1m"}}}
            ),
            "spec.resources.limits.cpu",
            id="the pod as a whole",
        ),
        pytest.param(
            object_of(
                "Pod",
                "v1",
                spec={"containers": []},
                status={"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "-1"}}]},
            ),
            "status.containerStatuses[0].allocatedResources.cpu",
            id="a status",
        ),
        pytest.param(
            object_of("PodTemplate", "v1", template=pod_template(BAD)),
            "template.spec.containers[0].resources.requests.cpu",
            id="a template",
        ),
        pytest.param(
            object_of("Deployment", "apps/v1", spec={"template": pod_template(BAD)}),
            "spec.template.spec.containers[0].resources.requests.cpu",
            id="a deployment",
        ),
        pytest.param(
            object_of(
                "CronJob",
                "batch/v1",
                spec={"jobTemplate": {"spec": {"template": pod_template(BAD)}}},
            ),
            "spec.jobTemplate.spec.template.spec.containers[0].resources.requests.cpu",
            id="a cron job",
        ),
        pytest.param(
            object_of("Node", "v1", status={"capacity": {"example.com/gpu": "-1"}}),
            "status.capacity[example.com/gpu]",
            id="a node",
        ),
        pytest.param(
            object_of(
                "LimitRange",
                "v1",
                spec={"limits": [{"type": "Container", "default": {"cpu": "-1"}}]},
            ),
            "spec.limits[0].default.cpu",
            id="a limit range",
        ),
    ],
)
def test_a_negative_amount_is_refused_wherever_it_stands(obj: dict[str, Any], field: str) -> None:
    (error,) = check(obj).errors

    assert (field, "must not be negative") == (error.field, error.detail)


@pytest.mark.parametrize("amount", ["much", "", "1x", "1e9999", float("nan"), float("inf"), "0x1"])
def test_what_is_no_quantity_is_refused(amount: Any) -> None:
    obj = object_of("Pod", "v1", spec={"containers": [amounts(limits={"memory": amount})]})

    (error,) = check(obj).errors

    assert error.field == "spec.containers[0].resources.limits.memory"
    assert error.detail.startswith("must be a quantity such as ")


@pytest.mark.parametrize("amount", ["0", 0, 2, 0.5, "500m", "1.5Gi", "1e3", ".5", "+1"])
def test_a_quantity_is_accepted(amount: Any) -> None:
    obj = object_of("Pod", "v1", spec={"containers": [amounts(requests={"cpu": amount})]})

    assert [] == check(obj).errors


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "c", "resources": None}]},
        {"containers": [{"name": "c", "resources": {"requests": None}}]},
        {"containers": None},
        {"containers": [], "resources": None, "overhead": None},
    ],
)
def test_nothing_where_amounts_could_be_is_no_error(spec: dict[str, Any]) -> None:
    assert [] == check(object_of("Pod", "v1", spec=spec)).errors


def test_an_amount_that_may_be_missing_is_looked_at_where_it_is_there() -> None:
    policy = {"default": "1", "validRange": {"min": "-1"}}
    device = {"name": "d", "capacity": {"memory": {"value": "1Gi", "requestPolicy": policy}}}
    obj = object_of(
        "ResourceSlice",
        "resource.k8s.io/v1",
        spec={
            "driver": "x",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "n",
            "devices": [device],
        },
    )

    assert ["must not be negative"] == [error.detail for error in check(obj).errors]

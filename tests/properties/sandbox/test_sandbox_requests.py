"""Whatever is asked of the sandbox, it has an answer: never an error of its own, never a traceback.

Requests are made from parts that are legal and from parts that are not, with extremes among them.
An API server answers some of them with a 500 without a reason, which is then the right answer.
"""

import json
import logging
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.server import (
    APPLY,
    JSON,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    TABLE,
    Cluster,
    cluster,
    config_map,
    crd,
    deployment,
    manifest,
    pod,
)
from karpenter_sandbox.server.messages import Response, WatchResponse

pytestmark = pytest.mark.storm

NAMESPACED: Final = "/api/v1/namespaces/default"
PATHS: Final = (
    "/api/v1/nodes",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/batch/v1/namespaces/default/jobs",
    "/apis/batch/v1/namespaces/default/cronjobs",
    "/apis/example.com/v1/namespaces/default/gadgets",
    "/apis/karpenter.sh/v1/nodepools",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    *(
        f"{NAMESPACED}/{kind}"
        for kind in ("configmaps", "pods", "secrets", "services", "persistentvolumeclaims")
    ),
)
NAMES: Final = ("", "/web", "/settings", "/gadget", "/absent", "/%00", "/" + "n" * 300)
PARTS: Final = ("", "", "", "/status", "/scale", "/eviction", "/binding", "/token", "/resize")
KINDS: Final = (JSON, MERGE, STRATEGIC, JSON_PATCH, APPLY, "application/yaml", "", "text/plain")
ACCEPTED: Final = (JSON, TABLE, "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io")

# What a value may be, whatever the field wants
numbers = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([2**31, 2**63 - 1, 2**63, -(2**63), 10**25, 1.5, 1e308, -1e-308]),
)
texts = st.one_of(
    st.sampled_from(
        ["", "x", "1e308", "-1", "1e-9", "9" * 400, "Ki", "0000-01-01T00:00:00Z", "%s", "a\x00\r\n"]
    ),
    st.sampled_from(["9999-12-31T23:59:59Z", "2030-01-01T00:00:00Z", "100%", "-5%", "λ" * 300]),
    st.text(max_size=20),
)
plain = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    plain,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)


def objects() -> list[Any]:
    """What is legal, and has something of everything to be spoilt."""
    full = pod(
        "full",
        terminationGracePeriodSeconds=30,
        activeDeadlineSeconds=5,
        nodeName="n",
        nodeSelector={"a": "b"},
        tolerations=[{"key": "a", "operator": "Exists", "tolerationSeconds": 5}],
        topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
        overhead={"cpu": "1"},
    )
    full["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}}
    full["metadata"]["labels"] = {"a": "b"}
    job = {"template": full | {}, "backoffLimit": 1, "activeDeadlineSeconds": 5}
    column = {"name": "A", "type": "integer", "jsonPath": ".spec.a"}
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"a": {"type": "integer"}}}},
    }
    node = manifest("v1", "Node", "web", namespace=None, spec={"taints": []})
    node["status"] = {"capacity": {"cpu": "1"}, "conditions": [{"type": "Ready"}]}
    options = {"gracePeriodSeconds": 5, "preconditions": {"uid": "x"}, "dryRun": ["All"]}
    return [
        full,
        node,
        config_map(a="1"),
        deployment("web", replicas=3, minReadySeconds=5, progressDeadlineSeconds=9),
        manifest("batch/v1", "Job", "web", spec=job),
        manifest("batch/v1", "CronJob", "web", spec={"schedule": "* * * * *", "jobTemplate": {}}),
        manifest("example.com/v1", "Gadget", "gadget", spec={"a": 1}),
        crd("things", "Thing", schema=schema, additionalPrinterColumns=[column]),
        manifest("policy/v1", "PodDisruptionBudget", "web", spec={"minAvailable": "50%"}),
        manifest("policy/v1", "Eviction", "web", deleteOptions=options),
        manifest("autoscaling/v1", "Scale", "web", spec={"replicas": 3}),
        manifest("v1", "Binding", "web", target={"kind": "Node", "name": "n"}),
        manifest("v1", "Secret", "web", data={"a": "YQ=="}),
        manifest("v1", "Service", "web", spec={"ports": [{"port": 80}]}),
        {"kind": "DeleteOptions", "apiVersion": "v1", **options},
        [{"op": "copy", "from": "/spec", "path": "/data/x"}],
        [{"op": "replace", "path": "/spec/replicas", "value": 5}, {"op": "test", "path": "/a/0"}],
    ]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in an object."""
    found = [path] if path else []
    if isinstance(value, dict):
        return found + [each for key in value for each in places(value[key], (*path, key))]
    if isinstance(value, list):
        return found + [each for at, part in enumerate(value) for each in places(part, (*path, at))]
    return found


def spoilt(value: Any, path: tuple[Any, ...], replacement: Any) -> Any:
    """An object with something else in one place."""
    if not path:
        return replacement
    key, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = spoilt(value[key], tuple(rest), replacement)
    return copy


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    obj = draw(st.sampled_from(objects()))
    for _ in range(draw(st.integers(0, 2))):
        obj = spoilt(obj, draw(st.sampled_from(places(obj))), draw(values))
    text = json.dumps(obj)
    deep = draw(st.sampled_from([0, 0, 0, 150, 250, 2000]))
    if deep:
        text = text.replace('"a"', '{"x":' * deep + "1" + "}" * deep, 1).replace(
            '"a":', f'"a":{"[" * deep}{"]" * deep},"b":', 1
        )
    if draw(st.integers(0, 9)) == 0:
        text = text.replace("1", "1" * draw(st.sampled_from([30, 400, 5000])), 2)
    if draw(st.integers(0, 9)) == 0:
        text = text[: draw(st.integers(0, len(text)))]
    return text.encode(errors="surrogatepass")


QUERIES: Final = (
    *("limit", "continue", "labelSelector", "fieldSelector", "resourceVersion", "dryRun", "force"),
    *("gracePeriodSeconds", "fieldManager", "fieldValidation", "propagationPolicy", "watch"),
    *("timeoutSeconds", "resourceVersionMatch", "includeObject", "sendInitialEvents"),
)
queries = st.dictionaries(
    st.sampled_from(QUERIES),
    st.one_of(
        texts, numbers.map(str), st.sampled_from(["All", "Strict", "true", "a=b", "a in (b)"])
    ),
    max_size=3,
)


def world() -> Cluster:
    """A cluster with something of each kind."""
    made = cluster()
    made.create(crd())
    for obj in (pod(), config_map(a="1"), deployment()):
        made.create(obj)
    made.create(manifest("example.com/v1", "Gadget", "gadget", spec={"a": 1}))
    return made


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "PATCH", "DELETE"]),
    path=st.tuples(st.sampled_from(PATHS), st.sampled_from(NAMES), st.sampled_from(PARTS)),
    body=bodies(),
    kind=st.sampled_from(KINDS),
    accept=st.sampled_from(ACCEPTED),
    query=queries,
)
def test_every_request_has_an_answer(
    caplog: pytest.LogCaptureFixture,
    method: str,
    path: tuple[str, str, str],
    body: bytes,
    kind: str,
    accept: str,
    query: dict[str, str],
) -> None:
    caplog.clear()
    api = world()
    headers = {"content-type": kind, "accept": accept, "user-agent": "pytest"}

    with caplog.at_level(logging.WARNING):
        answer = api.request(
            method, "".join(path), body if method != "GET" else None, headers=headers, query=query
        )

    assert [] == caplog.records
    assert not is_fault(answer), answer
    # And whatever it was, the others can still be asked
    table = api.request("GET", path[0], headers={"accept": TABLE}, query={})
    assert not is_fault(table), table
    assert [] == caplog.records


def is_fault(answer: Response | WatchResponse) -> bool:
    """Whether an answer is an error of the server that it does not explain."""
    if isinstance(answer, WatchResponse) or answer.status < 500:
        return False
    return answer.status == 500 and b'"reason":"InternalError"' in answer.body

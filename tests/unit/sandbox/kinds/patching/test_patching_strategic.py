"""Strategic merge patches merge lists by key and obey their directives, as an API server does."""

from typing import Any

import pytest

from karpenter_sandbox.kinds.patching.errors import PatchError
from karpenter_sandbox.kinds.patching.strategic import apply_strategic_patch
from karpenter_sandbox.kinds.schema import builtin_schema

JsonObject = dict[str, Any]
SCHEMA = builtin_schema("v1", "Pod")
DEPLOYMENT = builtin_schema("apps/v1", "Deployment")


def pod(*containers: JsonObject, **spec: Any) -> JsonObject:
    return {"spec": {"containers": list(containers), **spec}}


def patched(original: JsonObject, patch: object) -> JsonObject:
    assert SCHEMA is not None
    return apply_strategic_patch(original, patch, SCHEMA)


def c(name: str, **more: Any) -> JsonObject:
    return {"name": name, **more}


@pytest.mark.parametrize(
    ("original", "patch", "expected"),
    [
        pytest.param(
            pod(c("a", image="1"), c("b")),
            pod(c("b", image="2")),
            pod(c("a", image="1"), c("b", image="2")),
            id="an item is found by its key",
        ),
        pytest.param(pod(c("a")), None, pod(c("a")), id="nothing changes nothing"),
        pytest.param(
            pod(c("a")), pod(c("n"), c("a")), pod(c("n"), c("a")), id="stated items set the order"
        ),
        pytest.param(
            pod(c("a"), c("b"), c("c")),
            pod(c("c"), c("n")),
            pod(c("a"), c("b"), c("c"), c("n")),
            id="others stay where they stood",
        ),
        pytest.param(
            pod(c("a", image="1", stdin=True)),
            pod(c("a", image=None)),
            pod(c("a", stdin=True)),
            id="null removes a field of an item",
        ),
        pytest.param(
            pod(c("a"), c("b")),
            pod({"name": "a", "$patch": "delete"}),
            pod(c("b")),
            id="delete an item",
        ),
        pytest.param(
            pod(c("a"), c("b")),
            pod(c("n"), {"$patch": "replace"}),
            pod(c("n")),
            id="replace a list",
        ),
        pytest.param(
            pod(c("a")),
            {"spec": {"$patch": "replace", "nodeName": "n"}},
            {"spec": {"nodeName": "n"}},
            id="replace an object",
        ),
        pytest.param(
            pod(c("a")),
            {"spec": {"$patch": "delete"}},
            {"spec": {}},
            id="delete an object's fields",
        ),
        pytest.param(
            pod(tolerations=[{"key": "a"}]),
            {"spec": {"tolerations": [{"key": "b"}]}},
            pod(tolerations=[{"key": "b"}]),
            id="lists without a key are one value",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"finalizers": ["c", "a"]}},
            {"metadata": {"finalizers": ["c", "a", "b"]}},
            id="sets are joined",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "x"]}},
            {"metadata": {"finalizers": ["b"]}},
            id="delete from a set",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"$setElementOrder/finalizers": ["b", "a"]}},
            {"metadata": {"finalizers": ["b", "a"]}},
            id="order a set",
        ),
        pytest.param(
            pod(c("a"), c("b"), c("x")),
            {
                "spec": {
                    "$setElementOrder/containers": [c("n"), c("b"), c("a")],
                    "containers": [c("n", image="1")],
                }
            },
            pod(c("n", image="1"), c("b"), c("a"), c("x")),
            id="order a list",
        ),
        pytest.param(
            {"spec": {}},
            {"spec": {"$setElementOrder/containers": [c("n")], "containers": [c("n", image=None)]}},
            pod(c("n")),
            id="order a new list",
        ),
        pytest.param(
            {"spec": {}},
            {"spec": {"$setElementOrder/containers": [c("n")]}},
            {"spec": {}},
            id="no list",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "1", "b": "2"}}},
            {"metadata": {"labels": {"b": None, "c": "3"}}},
            {"metadata": {"labels": {"a": "1", "c": "3"}}},
            id="maps are merged",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "1"}}},
            {"metadata": {"labels": {"$patch": "replace", "b": "2"}}},
            {"metadata": {"labels": {"b": "2"}}},
            id="replace a map",
        ),
        pytest.param(
            {"spec": {}},
            {
                "spec": {
                    "affinity": {"nodeAffinity": None},
                    "volumes": [{"name": "v", "$patch": "delete"}],
                }
            },
            {"spec": {"affinity": {}, "volumes": []}},
            id="what is new comes without nulls and directives",
        ),
        pytest.param(
            {"spec": {"affinity": {}}},
            {"spec": {"nodeSelector": {"$patch": "delete"}}},
            {"spec": {"affinity": {}}},
            id="deleting what is not there",
        ),
        pytest.param(
            pod(c("a", ports=[{"containerPort": 80, "name": "x"}])),
            pod(c("a", ports=[{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81}])),
            pod(
                c(
                    "a",
                    ports=[
                        {"containerPort": 80, "name": "x", "protocol": "UDP"},
                        {"containerPort": 81},
                    ],
                )
            ),
            id="lists inside of lists",
        ),
    ],
)
def test_merging(original: JsonObject, patch: JsonObject, expected: JsonObject) -> None:
    assert expected == patched(original, patch)


def test_retained_keys_are_all_that_stays() -> None:
    assert DEPLOYMENT is not None
    original = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}

    result = apply_strategic_patch(original, patch, DEPLOYMENT)

    assert {"spec": {"strategy": {"type": "Recreate"}}} == result


@pytest.mark.parametrize(
    ("patch", "status", "message"),
    [
        pytest.param([], 400, "cannot unmarshal", id="no object"),
        pytest.param(
            pod({"image": "x"}),
            500,
            "map: map[image:x] does not contain declared merge key: name",
            id="an item without its key",
        ),
        pytest.param(
            pod("x"),  # type: ignore[arg-type]
            500,
            "expected a map[string]interface {}, but received a string",
            id="text among items",
        ),
        pytest.param(
            pod({"name": "a", "$patch": "frob"}),
            500,
            "unknown patch type: frob in map: map[$patch:frob name:a]",
            id="no such directive for an item",
        ),
        pytest.param(
            pod({"name": "a", "$patch": "merge"}),
            500,
            "merging lists cannot yet be specified in the patch",
            id="merge is no directive",
        ),
        pytest.param(
            {"spec": {"$patch": "frob"}},
            500,
            "unknown patch type: frob in map: map[$patch:frob]",
            id="no such directive for an object",
        ),
        pytest.param(
            {"spec": {"$retainKeys": ["x"], "nodeName": "n"}},
            400,
            "invalid patch format of retainKeys",
            id="a field that is not retained",
        ),
        pytest.param(
            {"spec": {"$retainKeys": "x"}}, 400, "invalid patch format of retainKeys", id="no list"
        ),
        pytest.param(
            {"spec": {"$setElementOrder/containers": [c("x")], "containers": [c("a")]}},
            500,
            "doesn't match $setElementOrder list",
            id="an order without a stated item",
        ),
        pytest.param(
            {"spec": {"$setElementOrder/containers": "x"}},
            400,
            "invalid patch format of setElementOrder list",
            id="an order that is no list",
        ),
    ],
)
def test_patches_that_make_no_sense(patch: object, status: int, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        patched(pod(c("a")), patch)

    assert status == caught.value.status
    assert message in caught.value.message

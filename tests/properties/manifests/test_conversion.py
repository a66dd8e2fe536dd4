"""Conversion loses nothing, settles after one pass, and answers any input without breaking."""

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.admission.check import check
from karpenter.conversion.convert import Options, convert_all
from karpenter.conversion.keys import rename_keys
from karpenter.conversion.selectors import resource_terms
from karpenter.conversion.v1beta1 import down, up

QUICK = settings(max_examples=150, deadline=None)
COSTLY = settings(max_examples=60, deadline=None)

OPTIONS = Options(node_role="R", default_node_class="given")
IMDS = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 2,
    "httpTokens": "required",
}
POOLS = {"a": "24h", "b": "Never"}

words = st.sampled_from(["a", "b", "c-1", "team", "example.com/x"])
string_maps = st.dictionaries(words, words, min_size=1, max_size=3)
durations = st.sampled_from(["30s", "1h30m", "720h", "Never"])


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that have any selection of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


requirements = st.lists(
    st.fixed_dictionaries(
        {"key": words, "operator": st.sampled_from(["In", "NotIn", "Exists", "Gt"])},
        optional={"values": st.lists(words, max_size=2), "minValues": st.integers(1, 3)},
    ),
    max_size=3,
)
taints = st.lists(
    st.fixed_dictionaries({"key": words, "effect": st.just("NoSchedule")}), max_size=2
)
references = st.fixed_dictionaries(
    {"name": words},
    optional={
        "apiVersion": st.sampled_from(["karpenter.k8s.aws/v1beta1", "karpenter.kwok.sh/v1alpha1"]),
        "kind": st.sampled_from(["EC2NodeClass", "KWOKNodeClass"]),
    },
)
kubelets = some(
    maxPods=st.integers(0, 100),
    clusterDNS=st.lists(words, max_size=2),
    systemReserved=string_maps,
    cpuCFSQuota=st.booleans(),
)
node_fields = {
    "nodeClassRef": references,
    "requirements": requirements,
    "taints": taints,
    "startupTaints": taints,
    "kubelet": kubelets,
}
budgets = st.lists(some(nodes=st.just("10%"), schedule=st.just("@daily"), duration=durations))
disruptions = st.one_of(
    some(expireAfter=durations, budgets=budgets),
    some(
        expireAfter=durations,
        budgets=budgets,
        consolidationPolicy=st.just("WhenUnderutilized"),
        consolidateAfter=st.just("Never"),
    ),
    st.fixed_dictionaries(
        {"consolidationPolicy": st.just("WhenEmpty"), "consolidateAfter": durations},
        optional={"expireAfter": durations, "budgets": budgets},
    ),
)
metadata = st.fixed_dictionaries(
    {"name": st.just("x")}, optional={"labels": string_maps, "annotations": string_maps}
)
node_pools = st.fixed_dictionaries(
    {
        "apiVersion": st.just("karpenter.sh/v1beta1"),
        "kind": st.just("NodePool"),
        "metadata": metadata,
        "spec": st.fixed_dictionaries(
            {
                "template": st.fixed_dictionaries(
                    {"spec": some(**node_fields)}, optional={"metadata": some(labels=string_maps)}
                )
            },
            optional={
                "disruption": disruptions,
                "limits": string_maps,
                "weight": st.integers(1, 100),
            },
        ),
    },
    optional={"status": some(resources=string_maps, conditions=st.just([{"type": "Ready"}]))},
)


def named(optional: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """The metadata of an object called x."""
    return st.fixed_dictionaries({"name": st.just("x")}, optional=optional)


node_claims = st.fixed_dictionaries(
    {
        "apiVersion": st.just("karpenter.sh/v1beta1"),
        "kind": st.just("NodeClaim"),
        "metadata": named(
            {
                "labels": some(**{"karpenter.sh/nodepool": st.sampled_from(["a", "b", "gone"])}),
                "annotations": string_maps,
            }
        ),
        "spec": some(**node_fields, resources=st.just({"requests": {"cpu": "1"}})),
    },
    optional={"status": some(nodeName=words, providerID=words)},
)
ami_terms = st.lists(some(id=words, name=words, owner=words, tags=string_maps), min_size=1)
node_classes = st.fixed_dictionaries(
    {
        "apiVersion": st.just("karpenter.k8s.aws/v1beta1"),
        "kind": st.just("EC2NodeClass"),
        "metadata": named(
            {
                "annotations": st.one_of(
                    string_maps,
                    st.just({"compatibility.karpenter.k8s.aws/v1-alias-version": "v20240807"}),
                )
            }
        ),
        "spec": st.fixed_dictionaries(
            {
                "amiFamily": st.sampled_from(
                    ["AL2", "AL2023", "Bottlerocket", "Ubuntu", "Windows2022", "Custom"]
                ),
                "role": words,
            },
            optional={
                "amiSelectorTerms": ami_terms.map(
                    lambda terms: [t for t in terms if t] or [{"id": "a"}]
                ),
                "metadataOptions": some(
                    httpPutResponseHopLimit=st.integers(1, 64), httpTokens=st.just("optional")
                ),
                "blockDeviceMappings": st.lists(some(deviceName=words, ebs=string_maps)),
                "tags": string_maps,
                "userData": words,
            },
        ),
    }
)
beta_objects = st.one_of(node_pools, node_claims, node_classes)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8) | words, inner, max_size=3)
    ),
    max_leaves=8,
)

PROVISIONER: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1alpha5",
    "kind": "Provisioner",
    "metadata": {"name": "p", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {
        "labels": {"team": "a"},
        "annotations": {"karpenter.sh/do-not-evict": "true"},
        "taints": [{"key": "t", "effect": "NoSchedule"}],
        "startupTaints": [{"key": "s", "value": "v", "effect": "NoExecute"}],
        "requirements": [
            {"key": "karpenter.k8s.aws/instance-ami-id", "operator": "Exists"},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z"]},
        ],
        "provider": {
            "apiVersion": "extensions.karpenter.sh/v1alpha1",
            "kind": "AWS",
            "subnetSelector": {"a": "b,c"},
            "securityGroupSelector": {"aws-ids": "sg-1"},
            "tags": {"x": "y"},
        },
        "kubeletConfiguration": {
            "containerRuntime": "containerd",
            "systemReserved": {"cpu": 1},
            "evictionHard": {"memory.available": "5%"},
        },
        "ttlSecondsUntilExpired": 1800,
        "ttlSecondsAfterEmpty": 30,
        "consolidation": {"enabled": False},
        "limits": {"resources": {"cpu": 100}},
        "weight": 10,
    },
    "status": {"resources": {"cpu": "1"}},
}
TEMPLATE: dict[str, Any] = {
    "apiVersion": "karpenter.k8s.aws/v1alpha1",
    "kind": "AWSNodeTemplate",
    "metadata": {"name": "t", "finalizers": ["a.b/c"]},
    "spec": {
        "subnetSelector": {"aws::ids": "subnet-1,subnet-2"},
        "securityGroupSelector": {"Name": "a", "env": "x,y"},
        "amiSelector": {"aws::name": "n", "aws::owners": "self", "t": "u"},
        "amiFamily": "Ubuntu",
        "userData": "x",
        "instanceProfile": "i",
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "102400Mi"}}],
        "metadataOptions": {"httpTokens": "required"},
        "detailedMonitoring": True,
    },
}
USER: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1alpha5",
    "kind": "Provisioner",
    "metadata": {"name": "u"},
    "spec": {"providerRef": {"name": "t"}, "kubeletConfiguration": {"maxPods": 1}},
}
POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1beta1",
    "kind": "NodePool",
    "metadata": {"name": "b"},
    "spec": {
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "nodeClassRef": {"apiVersion": "karpenter.k8s.aws/v1beta1", "name": "k"},
                "requirements": [{"key": "a", "operator": "Exists"}],
                "kubelet": {"maxPods": 1},
                "resources": {},
            },
        },
        "disruption": {
            "expireAfter": "1h",
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": "30s",
            "budgets": [{"nodes": "1"}],
        },
        "limits": {"cpu": "1"},
    },
}
CLASS: dict[str, Any] = {
    "apiVersion": "karpenter.k8s.aws/v1beta1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "k"},
    "spec": {
        "amiFamily": "AL2023",
        "role": "r",
        "subnetSelectorTerms": [{"id": "subnet-1"}],
        "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
        "metadataOptions": {"httpTokens": "optional"},
    },
}
CLAIM: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1beta1",
    "kind": "NodeClaim",
    "metadata": {"name": "c", "labels": {"karpenter.sh/nodepool": "b"}},
    "spec": {
        "nodeClassRef": {"name": "k"},
        "requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["b"]}],
        "resources": {"requests": {"cpu": "1"}},
    },
}
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "nodeSelector": {"karpenter.sh/provisioner-name": "p"},
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {
                                            "key": "karpenter.sh/provisioner-name",
                                            "operator": "Exists",
                                        }
                                    ]
                                }
                            ]
                        }
                    }
                },
                "containers": [{"name": "c", "image": "i"}],
            },
        },
    },
}
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"karpenter.sh/provisioner-name": "p"}},
    "spec": {"taints": [{"key": "karpenter.sh/not-ready", "effect": "NoSchedule"}]},
    "status": {"conditions": [{"type": "MachineLaunched", "status": "True"}]},
}
MANIFESTS = [PROVISIONER, TEMPLATE, USER, POOL, CLASS, CLAIM, DEPLOYMENT, NODE]


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    if isinstance(value, dict):
        for key, part in value.items():
            yield from paths(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from paths(part, (*path, index))


def replaced(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, dict):
        return {k: replaced(v, path[1:], new) if k == path[0] else v for k, v in value.items()}
    return [replaced(v, path[1:], new) if i == path[0] else v for i, v in enumerate(value)]


@st.composite
def spoilt_manifests(draw: st.DrawFn) -> list[Any]:
    """Good manifests in which a part or two were replaced by anything at all."""
    chosen = draw(st.lists(st.sampled_from(MANIFESTS), min_size=1, max_size=4))
    result = []
    for manifest in chosen:
        spoilt: Any = manifest
        for _ in range(draw(st.integers(0, 2))):
            place = draw(st.sampled_from(list(paths(spoilt))))
            spoilt = replaced(spoilt, place, draw(json_values))
        result.append(spoilt)
    return result


@QUICK
@given(beta_objects)
def test_what_went_up_comes_down_as_it_was(original: dict[str, Any]) -> None:
    returned = down(up(original, POOLS.get))

    if original["kind"] == "EC2NodeClass":
        # Only the metadata options are filled in, because v1 has another default for them.
        spec = original["spec"]
        family_is_aliased = spec["amiFamily"] not in ("Ubuntu", "Custom")
        uses_alias = family_is_aliased and "amiSelectorTerms" not in spec
        options = {**IMDS, **spec.get("metadataOptions", {})}
        original = {**original, "spec": {**spec, "metadataOptions": options}}
        assert uses_alias == ("alias" in json.dumps(up(original)["spec"]))
    assert original == returned


@QUICK
@given(beta_objects)
def test_going_down_and_up_again_changes_nothing(original: dict[str, Any]) -> None:
    lifted = up(original, POOLS.get)

    assert lifted == up(down(lifted), POOLS.get)


@QUICK
@given(st.lists(json_values, max_size=3))
def test_any_json_gets_an_answer(items: list[Any]) -> None:
    conversion = convert_all(items, OPTIONS)

    assert len(items) == len(conversion.results)
    for result in conversion.results:
        assert result.errors or result.skipped or result.objects


@COSTLY
@given(spoilt_manifests())
def test_a_spoilt_manifest_is_refused_or_converted_but_never_breaks_the_converter(
    items: list[Any],
) -> None:
    before = json.dumps(items)

    conversion = convert_all(items, OPTIONS)

    assert before == json.dumps(items)
    assert conversion == convert_all(items, OPTIONS)
    for result in conversion.results:
        outcomes = (bool(result.errors), result.skipped, bool(result.objects))
        assert outcomes.count(True) == 1


@COSTLY
@given(spoilt_manifests())
def test_what_is_produced_is_valid_and_stays_as_it_is(items: list[Any]) -> None:
    results = convert_all(items, OPTIONS).results
    objects = [made for result in results for made in result.objects]
    ours = [made for made in objects if made["apiVersion"].startswith("karpenter.")]

    again = [result for made in ours for result in convert_all([made], OPTIONS).results]

    assert all(not check(made).errors for made in ours)
    assert all(made["apiVersion"].endswith("/v1") for made in ours)
    assert [[made] for made in ours] == [result.objects for result in again]


@QUICK
@given(st.sampled_from(MANIFESTS), st.data())
def test_renaming_settles_after_one_pass(manifest: dict[str, Any], data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(list(paths(manifest))[1:]))
    spoilt = replaced(manifest, place, data.draw(json_values))

    once = rename_keys(spoilt)
    again = rename_keys(once.object)

    assert once.object == again.object
    assert again.changes == ()


@QUICK
@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "c"]),
        st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, max_size=3).map(" , ".join),
        min_size=1,
    )
)
def test_terms_select_exactly_what_the_selector_selected(selector: dict[str, str]) -> None:
    terms = resource_terms(selector, ("spec", "subnetSelector")).terms

    for values in product(["x", "y", "z"], repeat=3):
        tags = dict(zip(["a", "b", "c"], values, strict=True))
        wanted = all(tags[key] in text.split(" , ") for key, text in selector.items())
        assert wanted == any(tags.items() >= term["tags"].items() for term in terms)

"""A mixture of manifests is converted together, and every finding names what its author wrote."""

import json
from typing import Any

import pytest

from karpenter.admission.errors import Path
from karpenter.conversion.convert import Conversion, Options, Result, convert_all

OPTIONS = Options(node_role="R")
OLD, NEW = "karpenter.sh/provisioner-name", "karpenter.sh/nodepool"
KEPT_KUBELET = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
SELECTORS = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}}


def obj(api_version: str, kind: str, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    result = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", **metadata}}
    return result if spec is None else {**result, "spec": spec}


def provisioner(name: str = "p", **spec: Any) -> dict[str, Any]:
    return obj("karpenter.sh/v1alpha5", "Provisioner", spec, name=name)


def template(name: str = "t", **spec: Any) -> dict[str, Any]:
    return obj("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", {**SELECTORS, **spec}, name=name)


def beta_pool(**spec: Any) -> dict[str, Any]:
    node = {"nodeClassRef": {"name": "d"}, "requirements": []}
    whole = {"template": {"spec": node}, **spec}
    return obj("karpenter.sh/v1beta1", "NodePool", whole, name="p")


def beta_class(**spec: Any) -> dict[str, Any]:
    terms = {"subnetSelectorTerms": [{"id": "subnet-1"}], "amiFamily": "AL2023", "role": "r"}
    groups = {"securityGroupSelectorTerms": [{"id": "sg-1"}]}
    return obj("karpenter.k8s.aws/v1beta1", "EC2NodeClass", {**terms, **groups, **spec}, name="k")


def v1_class(name: str = "k", **spec: Any) -> dict[str, Any]:
    (result,) = convert_all([beta_class(**spec)]).results
    (node_class,) = result.objects
    return {**node_class, "metadata": {"name": name}}


def v1_pool(class_name: str) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class_name}
    node = {"nodeClassRef": reference, "requirements": []}
    return obj("karpenter.sh/v1", "NodePool", {"template": {"spec": node}}, name="pool")


def convert(*items: dict[str, Any], options: Options = OPTIONS) -> Conversion:
    return convert_all(items, options)


def convert_one(item: dict[str, Any], options: Options = OPTIONS) -> Result:
    (result,) = convert_all([item], options).results
    return result


def error_paths(result: Result) -> list[Path]:
    return [error.path for error in result.errors]


def named(conversion: Conversion, kind: str) -> dict[str, dict[str, Any]]:
    return {
        made["metadata"]["name"]: made
        for result in conversion.results
        for made in result.objects
        if made["kind"] == kind
    }


def class_of(pool: dict[str, Any]) -> str:
    name: str = pool["spec"]["template"]["spec"]["nodeClassRef"]["name"]
    return name


@pytest.mark.parametrize(
    ("item", "path", "words"),
    [
        pytest.param({"kind": "NodePool"}, ("apiVersion",), "apiVersion", id="no apiVersion"),
        pytest.param({"apiVersion": "karpenter.sh/v1"}, ("kind",), "kind", id="no kind"),
        pytest.param(
            {"apiVersion": 1, "kind": "NodePool"}, ("apiVersion",), "text", id="a numeric version"
        ),
        pytest.param(
            obj("karpenter.sh/v1alpha4", "Provisioner", {}),
            ("apiVersion",),
            "Provisioner is known as karpenter.sh/v1alpha5 only",
            id="a version before ours",
        ),
        pytest.param(
            obj("karpenter.sh/v2", "NodePool", {}),
            ("apiVersion",),
            "NodePool is known as karpenter.sh/v1 and karpenter.sh/v1beta1 only",
            id="a version after ours",
        ),
        pytest.param(
            obj("karpenter.k8s.aws/v1", "NodePool", {}),
            ("apiVersion",),
            "NodePool is known as karpenter.sh/v1",
            id="the wrong one of our groups",
        ),
        pytest.param(
            obj("karpenter.sh/v1", "NodePol", {}),
            ("kind",),
            "did you mean NodePool?",
            id="a misspelt kind",
        ),
        pytest.param(
            obj("karpenter.sh/v1", "Toaster", {}),
            ("kind",),
            "known kinds are Machine, NodeClaim, NodeOverlay, NodePool, Provisioner",
            id="a kind nobody knows",
        ),
        pytest.param(
            obj("compute.k8s.aws/v1", "EC2NodeClass", {}),
            ("apiVersion",),
            "EC2NodeClass is known as karpenter.k8s.aws/v1",
            id="a version of the mistaken group that no tutorial shows",
        ),
    ],
)
def test_an_object_is_refused_when_it_has(item: dict[str, Any], path: Path, words: str) -> None:
    result = convert_one(item)

    assert [path] == error_paths(result)
    assert words in result.errors[0].detail
    assert not result.objects
    assert not result.skipped


def test_what_is_not_even_a_map_is_refused() -> None:
    result = convert_all([["text"]]).results[0]  # type: ignore[list-item]

    assert error_paths(result) == [()]


def test_an_object_nested_without_end_is_refused_before_anything_walks_it() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = [deep]

    result = convert_one(obj("karpenter.sh/v1", "NodePool", {"template": deep}))

    assert "nested more than 100 levels deep" in result.errors[0].detail


def test_a_machine_is_left_out() -> None:
    result = convert_one(obj("karpenter.sh/v1alpha5", "Machine", {}))

    assert result.skipped
    assert "no v1 manifest" in result.warnings[0].message


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(obj("v1", "ConfigMap"), id="a ConfigMap"),
        pytest.param(obj("apps/v1", "Deployment", {"replicas": 1}), id="a Deployment"),
        pytest.param(obj("eksctl.io/v1alpha5", "ClusterConfig"), id="an eksctl file"),
        pytest.param(obj("example.com/v1", "NodePool", {}), id="somebody else's NodePool"),
    ],
)
def test_what_is_not_ours_is_left_out_with_a_warning(item: dict[str, Any]) -> None:
    result = convert_one(item)

    assert result.skipped
    assert [warning.path for warning in result.warnings] == [("kind",)]
    assert "is not a Karpenter object" in result.warnings[0].message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            obj("v1", "Pod", {"nodeSelector": {OLD: "a"}, "containers": []}),
            obj("v1", "Pod", {"nodeSelector": {NEW: "a"}, "containers": []}),
            id="a pod",
        ),
        pytest.param(
            {**obj("v1", "Node", {}, labels={OLD: "a"}, uid="1"), "status": {"phase": "x"}},
            {**obj("v1", "Node", {}, labels={NEW: "a"}, uid="1"), "status": {"phase": "x"}},
            id="a node with everything else about it",
        ),
        pytest.param(
            obj("argoproj.io/v1", "Rollout", {"template": {"spec": {"nodeSelector": {OLD: "a"}}}}),
            obj("argoproj.io/v1", "Rollout", {"template": {"spec": {"nodeSelector": {NEW: "a"}}}}),
            id="a workload of others",
        ),
    ],
)
def test_what_is_not_ours_but_carries_a_renamed_key_is_rewritten(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    result = convert_one(before)

    assert [after] == result.objects
    assert not result.skipped


def test_a_rewritten_annotation_must_be_text() -> None:
    result = convert_one(obj("v1", "Pod", {}, annotations={"karpenter.sh/do-not-evict": True}))

    assert error_paths(result) == [("metadata", "annotations", "karpenter.sh/do-not-evict")]
    assert "quotes" in result.errors[0].detail


def test_an_object_of_today_passes_through_in_todays_keys() -> None:
    pool = v1_pool("k")
    legacy = {
        **pool,
        "metadata": {
            **pool["metadata"],
            "annotations": {"karpenter.sh/do-not-evict": "true"},
            "uid": "1",
            "resourceVersion": "2",
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "generation": 3,
        },
        "status": {"nodes": 1},
    }

    result = convert_one(legacy)

    annotations = {"karpenter.sh/do-not-disrupt": "true"}
    assert [{**pool, "metadata": {"name": "pool", "annotations": annotations}}] == result.objects


def test_a_namespaced_object_keeps_its_namespace() -> None:
    buffer = obj(
        "autoscaling.x-k8s.io/v1beta1",
        "CapacityBuffer",
        {"podTemplateRef": {"name": "t"}, "replicas": 1},
        namespace="default",
    )

    assert [buffer] == convert_one(buffer).objects


def test_nothing_is_filled_in_and_durations_stay_as_typed() -> None:
    pool = beta_pool(disruption={"expireAfter": "0h90m", "consolidationPolicy": "WhenEmpty"})

    (made,) = convert_one(pool).objects

    assert made["spec"]["template"]["spec"]["expireAfter"] == "0h90m"
    assert "budgets" not in made["spec"]["disruption"]


def test_a_field_left_empty_counts_as_absent() -> None:
    result = convert_one(
        provisioner(providerRef={"name": "t"}, labels=None, requirements=None, limits=None)
    )

    assert not result.errors
    assert "metadata" not in result.objects[0]["spec"]["template"]


def test_converting_twice_changes_nothing_more() -> None:
    once = convert(template(), provisioner(providerRef={"name": "t"}), beta_pool(), beta_class())
    objects = [made for result in once.results for made in result.objects]

    again = convert_all(objects)

    assert objects == [made for result in again.results for made in result.objects]


def test_inputs_are_never_modified() -> None:
    items = [
        template(),
        provisioner("a", providerRef={"name": "t"}, kubeletConfiguration={"maxPods": 1}),
        provisioner("b", providerRef={"name": "t"}, kubeletConfiguration={"maxPods": 2}),
        provisioner("c", provider=SELECTORS),
        beta_pool(),
    ]
    before = json.dumps(items)

    convert_all(items)

    assert before == json.dumps(items)


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        pytest.param(
            Options(),
            [
                "kubernetes.io/os",
                "kubernetes.io/arch",
                "karpenter.sh/capacity-type",
                "karpenter.k8s.aws/instance-category",
                "karpenter.k8s.aws/instance-generation",
            ],
            id="late",
        ),
        pytest.param(
            Options(legacy_defaults="early"),
            ["kubernetes.io/arch", "karpenter.sh/capacity-type"],
            id="early",
        ),
        pytest.param(Options(ignore_defaults=True), [], id="ignored"),
    ],
)
def test_legacy_defaults_stand_after_the_users_requirements(
    options: Options, keys: list[str]
) -> None:
    own = {"key": "team", "operator": "Exists"}

    (made,) = convert_one(
        provisioner(providerRef={"name": "t"}, requirements=[own]), options
    ).objects

    assert ["team", *keys] == [
        each["key"] for each in made["spec"]["template"]["spec"]["requirements"]
    ]


@pytest.mark.parametrize(
    ("item", "path"),
    [
        pytest.param(
            provisioner(providerRef={"name": "t"}, taints=[{"key": "a", "effect": ""}]),
            ("spec", "taints", 0, "effect"),
            id="an empty taint effect becomes an error",
        ),
        pytest.param(
            provisioner(
                providerRef={"name": "t"}, requirements=[{"key": OLD, "operator": "Exists"}]
            ),
            ("spec", "requirements", 0, "key"),
            id="a requirement on the pool's own name",
        ),
        pytest.param(
            provisioner(providerRef={"name": "t"}, labels={OLD: "a"}),
            ("spec", "labels", OLD),
            id="a label with the pool's own name, under the key that was written",
        ),
        pytest.param(
            provisioner(providerRef={"name": "t"}, labels={"kubernetes.io/hostname": "a"}),
            ("spec", "labels", "kubernetes.io/hostname"),
            id="a label that nodes get by themselves",
        ),
        pytest.param(
            provisioner(providerRef={"name": "t"}, weight=0), ("spec", "weight"), id="a zero weight"
        ),
        pytest.param(
            provisioner(providerRef={"name": "t"}, limits={"resources": {"cpu": "abc"}}),
            ("spec", "limits", "resources", "cpu"),
            id="a limit that is no quantity",
        ),
        pytest.param(
            provisioner(providerRef={"name": "t"}, ttlSecondsUntilExpired=10**12),
            ("spec", "ttlSecondsUntilExpired"),
            id="an expiry beyond what v1 can count",
        ),
        pytest.param(
            template(tags={OLD: "a"}), ("spec", "tags"), id="a tag that Karpenter writes itself"
        ),
        pytest.param(
            template(subnetSelector={"aws-ids": "sub-1"}),
            ("spec", "subnetSelector"),
            id="an id that is none",
        ),
        pytest.param(
            template(amiSelector={"aws::owners": "self"}),
            ("spec", "amiSelector"),
            id="owners alone",
        ),
        pytest.param(
            template(amiFamily="Custom"), ("spec", "amiFamily"), id="Custom without images"
        ),
        pytest.param(
            beta_pool(disruption={"expireAfter": "1d"}),
            ("spec", "disruption", "expireAfter"),
            id="a v1beta1 expiry in days",
        ),
        pytest.param(
            beta_class(amiFamily="Debian"), ("spec", "amiFamily"), id="a v1beta1 family unknown"
        ),
    ],
)
def test_an_error_stands_at_the_field_that_was_written(item: dict[str, Any], path: Path) -> None:
    result = convert_one(item)

    assert path in error_paths(result)
    assert not result.objects


def test_a_reshaped_field_is_named_in_the_error() -> None:
    missing = template()
    del missing["spec"]["subnetSelector"]

    result = convert_one(missing)

    assert error_paths(result) == [("spec", "subnetSelector")]
    assert "v1 field spec.subnetSelectorTerms" in result.errors[0].detail


def test_an_error_text_speaks_of_the_path_that_was_written() -> None:
    result = convert_one(
        provisioner(providerRef={"name": "t"}, requirements=[{"key": "???", "operator": "Exists"}])
    )

    assert "spec.template" not in str(result.errors[0])


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        pytest.param(
            {"requirements": [7, {"key": "???", "operator": "Exists"}]},
            [("spec", "requirements", 0), ("spec", "requirements", 1, "key")],
            id="an ill-typed list item does not hide or shift the next",
        ),
        pytest.param({"labels": []}, [("spec", "labels")], id="a list instead of a map"),
        pytest.param(
            {"providerRef": "t"},
            [("spec", "providerRef")],
            id="an ill-typed reference is not also missing",
        ),
        pytest.param(
            {"provider": [], "providerRef": None},
            [("spec", "provider")],
            id="an ill-typed provider is not also missing",
        ),
        pytest.param(
            {
                "providerRef": None,
                "provider": {
                    **SELECTORS,
                    "blockDeviceMappings": ["x", {"deviceName": 1}],
                },
            },
            [
                ("spec", "provider", "blockDeviceMappings", 0),
                ("spec", "provider", "blockDeviceMappings", 1, "deviceName"),
            ],
            id="ill-typed parts of an inline provider",
        ),
    ],
)
def test_ill_typed_parts_are_reported_and_the_rest_is_still_judged(
    spec: dict[str, Any], paths: list[Path]
) -> None:
    result = convert_one(provisioner(**{"providerRef": {"name": "t"}, **spec}))

    assert paths == error_paths(result)


@pytest.mark.parametrize(
    ("item", "path"),
    [
        pytest.param(beta_class(role=5), ("spec", "role"), id="a rule about it and its rival"),
        pytest.param(
            beta_class(subnetSelectorTerms="subnet-1"),
            ("spec", "subnetSelectorTerms"),
            id="a field that must be there",
        ),
        pytest.param(
            beta_pool(template={"spec": 5}), ("spec", "template", "spec"), id="all of its parts"
        ),
    ],
)
def test_what_was_cut_out_is_not_missed_afterwards(item: dict[str, Any], path: Path) -> None:
    assert [path] == error_paths(convert_one(item))


def test_an_unknown_field_is_dropped_with_a_suggestion() -> None:
    result = convert_one(provisioner(providerRef={"name": "t"}, taint=[]))

    assert not result.errors
    assert [warning.path for warning in result.warnings] == [("spec", "taint")]
    assert 'did you mean "taints"?' in result.warnings[0].message


def test_an_unknown_field_of_an_inline_provider_is_an_error() -> None:
    result = convert_one(provisioner(provider={**SELECTORS, "amiFamly": "AL2"}))

    assert error_paths(result) == [("spec", "provider", "amiFamly")]
    assert 'did you mean "amiFamily"?' in result.errors[0].detail


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(
            provisioner(
                providerRef={"name": "t"},
                requirements=[
                    {"key": "node.kubernetes.io/instnace-type", "operator": "In", "values": ["x"]}
                ],
            ),
            id="in a Provisioner",
        ),
        pytest.param(
            obj(
                "karpenter.sh/v1beta1",
                "NodePool",
                {
                    "template": {
                        "spec": {
                            "nodeClassRef": {"name": "d"},
                            "requirements": [
                                {
                                    "key": "node.kubernetes.io/instnace-type",
                                    "operator": "In",
                                    "values": ["x"],
                                }
                            ],
                        }
                    }
                },
            ),
            id="in a v1beta1 NodePool",
        ),
    ],
)
def test_a_key_that_nearly_is_a_known_one_gets_a_suggestion(item: dict[str, Any]) -> None:
    result = convert_one(item)

    (hint,) = [w for w in result.warnings if "did you mean" in w.message]
    assert hint.path[-3:] == ("requirements", 0, "key")
    assert "node.kubernetes.io/instance-type" in hint.message


def test_the_mistaken_group_in_a_reference_is_mended() -> None:
    pool = beta_pool()
    reference = {"apiVersion": "compute.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "d"}
    pool["spec"]["template"]["spec"]["nodeClassRef"] = reference

    result = convert_one(pool)

    node = result.objects[0]["spec"]["template"]["spec"]
    assert node["nodeClassRef"]["group"] == "karpenter.k8s.aws"
    assert result.warnings[0].path[-1] == "apiVersion"


def test_kubelet_settings_of_a_pool_are_judged_before_they_are_kept() -> None:
    pool = beta_pool()
    pool["spec"]["template"]["spec"]["kubelet"] = {"evictionSoft": {"memory.available": "5%"}}

    result = convert_one(pool)

    node = ("spec", "template", "spec", "kubelet")
    assert [(*node, "evictionSoftGracePeriod", "memory.available")] == error_paths(result)


def test_reserved_amounts_of_a_pool_may_be_numbers_and_stay_so() -> None:
    pool = beta_pool()
    pool["spec"]["template"]["spec"]["kubelet"] = {"systemReserved": {"cpu": 1}}

    result = convert_one(pool)

    kept = result.objects[0]["metadata"]["annotations"][KEPT_KUBELET]
    assert kept == '{"systemReserved":{"cpu":1}}'


def test_a_claim_expires_as_the_pool_beside_it_says() -> None:
    claim = obj(
        "karpenter.sh/v1beta1",
        "NodeClaim",
        {"nodeClassRef": {"name": "d"}, "requirements": []},
        labels={NEW: "p"},
    )
    pool = beta_pool(disruption={"expireAfter": "48h"})

    with_pool, alone = convert(claim, pool), convert(claim)

    assert named(with_pool, "NodeClaim")["x"]["spec"]["expireAfter"] == "48h"
    assert named(alone, "NodeClaim")["x"]["spec"]["expireAfter"] == "720h"


def test_resources_of_a_template_are_dropped_with_a_warning() -> None:
    pool = beta_pool()
    pool["spec"]["template"]["spec"]["resources"] = {"requests": {"cpu": "1"}}

    result = convert_one(pool)

    assert ("spec", "template", "spec", "resources") in [w.path for w in result.warnings]
    assert "resources" not in result.objects[0]["spec"]["template"]["spec"]


def test_an_inline_provider_becomes_a_class_beside_the_pool() -> None:
    result = convert_one(provisioner(provider=SELECTORS, kubeletConfiguration={"maxPods": 20}))

    node_class, pool = result.objects
    assert node_class["metadata"] == {"name": "p"}
    assert node_class["spec"]["kubelet"] == {"maxPods": 20}
    assert class_of(pool) == "p"


def test_different_kubelet_settings_part_the_users_of_a_template() -> None:
    conversion = convert(
        provisioner("b", providerRef={"name": "t"}, kubeletConfiguration={"maxPods": 2}),
        provisioner("c", providerRef={"name": "t"}, kubeletConfiguration={"maxPods": 2}),
        provisioner("a", providerRef={"name": "t"}, kubeletConfiguration={"maxPods": 1}),
        template(tags={"x": "y"}),
    )

    classes, pools = named(conversion, "EC2NodeClass"), named(conversion, "NodePool")
    assert {name: made["spec"]["kubelet"]["maxPods"] for name, made in classes.items()} == {
        "t": 1,
        "t-b": 2,
    }
    assert {n: class_of(p) for n, p in pools.items()} == {"a": "t", "b": "t-b", "c": "t-b"}
    assert classes["t-b"]["spec"]["tags"] == {"x": "y"}


def test_a_class_of_today_that_pools_use_keeps_its_settings() -> None:
    conversion = convert(
        v1_class("k"),
        v1_pool("k"),
        provisioner(providerRef={"name": "k"}, kubeletConfiguration={"maxPods": 1}),
    )

    classes = named(conversion, "EC2NodeClass")
    assert "kubelet" not in classes["k"]["spec"]
    assert classes["k-p"]["spec"]["kubelet"] == {"maxPods": 1}


def test_a_class_of_today_that_nobody_else_uses_takes_the_settings() -> None:
    conversion = convert(
        v1_class("k"), provisioner(providerRef={"name": "k"}, kubeletConfiguration={"maxPods": 1})
    )

    assert named(conversion, "EC2NodeClass")["k"]["spec"]["kubelet"] == {"maxPods": 1}


def test_without_the_class_the_settings_travel_with_the_pool() -> None:
    result = convert_one(
        provisioner(providerRef={"name": "t"}, kubeletConfiguration={"maxPods": 1})
    )

    assert result.objects[0]["metadata"]["annotations"] == {KEPT_KUBELET: '{"maxPods":1}'}
    assert "move it to spec.kubelet" in result.warnings[0].message


def test_a_bad_kubelet_setting_is_blamed_on_the_provisioner_and_not_on_the_template() -> None:
    legacy = provisioner(
        providerRef={"name": "t"},
        kubeletConfiguration={"evictionHard": {"cpu.available": "5%"}},
    )

    of_template, of_provisioner = convert(template(), legacy).results

    assert not of_template.errors
    assert error_paths(of_provisioner) == [
        ("spec", "kubeletConfiguration", "evictionHard", "cpu.available")
    ]


def test_what_is_wrong_with_a_class_is_not_repeated_for_its_copy() -> None:
    of_template, _, of_copy = convert(
        template(tags={OLD: "a"}),
        provisioner("a", providerRef={"name": "t"}, kubeletConfiguration={"maxPods": 1}),
        provisioner("b", providerRef={"name": "t"}, kubeletConfiguration={"maxPods": 2}),
    ).results

    assert [("spec", "tags")] == error_paths(of_template)
    assert not of_copy.errors


@pytest.mark.parametrize(
    ("items", "path"),
    [
        pytest.param(
            [provisioner("t", provider=SELECTORS), template("t")],
            ("spec", "provider"),
            id="an inline class meets a template of its name",
        ),
        pytest.param(
            [
                provisioner("b", providerRef={"name": "t"}, kubeletConfiguration={"maxPods": 2}),
                provisioner("a", providerRef={"name": "t"}, kubeletConfiguration={"maxPods": 1}),
                template("t"),
                template("t-b"),
            ],
            ("spec", "kubeletConfiguration"),
            id="a copy meets a template of its name",
        ),
        pytest.param(
            [
                provisioner(providerRef={"name": "t"}, kubeletConfiguration={"maxPods": 2}),
                template("t"),
                template("t"),
            ],
            ("spec", "kubeletConfiguration"),
            id="settings meet two templates of one name",
        ),
    ],
)
def test_names_that_meet_are_an_error(items: list[dict[str, Any]], path: Path) -> None:
    first = convert(*items).results[0]

    assert [path] == error_paths(first)


@pytest.mark.row("S2-94")
def test_nothing_is_written_for_a_launch_template() -> None:
    of_template, inline = convert(
        template(launchTemplate="mine"), provisioner(provider={**SELECTORS, "launchTemplate": "m"})
    ).results

    assert error_paths(of_template) == [("spec", "launchTemplate")]
    assert error_paths(inline) == [("spec", "provider", "launchTemplate")]
    assert not of_template.objects
    assert not inline.objects


def test_the_conversion_knows_whether_it_failed() -> None:
    assert convert(provisioner()).has_errors
    assert not convert(template()).has_errors

"""Every renamed key is rewritten wherever it has a meaning, and nowhere else."""

from typing import Any

import pytest

from karpenter.admission.errors import Path
from karpenter.conversion.keys import Change, rename_keys

OLD, NEW = "karpenter.sh/provisioner-name", "karpenter.sh/nodepool"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node(**parts: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, **parts}


def labelled(**labels: str) -> dict[str, Any]:
    return node(metadata={"name": "n", "labels": labels})


def annotated(**annotations: str) -> dict[str, Any]:
    return node(metadata={"name": "n", "annotations": annotations})


def pod(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **metadata}, "spec": spec}


def expression(key: str, operator: str = "In", *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def pod_requiring(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return pod({"affinity": {"nodeAffinity": {REQUIRED: terms}}})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            labelled(**{OLD: "default", "app": "x"}),
            labelled(**{NEW: "default", "app": "x"}),
            id="the provisioner label of a node becomes the nodepool label",
        ),
        pytest.param(
            annotated(**{"karpenter.sh/do-not-evict": "true"}),
            annotated(**{"karpenter.sh/do-not-disrupt": "true"}),
            id="do-not-evict becomes do-not-disrupt",
        ),
        pytest.param(
            annotated(**{"karpenter.sh/do-not-consolidate": "true"}),
            annotated(**{"karpenter.sh/do-not-disrupt": "true"}),
            id="do-not-consolidate becomes do-not-disrupt",
        ),
        pytest.param(
            annotated(**{"karpenter.sh/node-termination-timestamp": "2024-01-01T00:00:00Z"}),
            annotated(**{"karpenter.sh/nodeclaim-termination-timestamp": "2024-01-01T00:00:00Z"}),
            id="the termination timestamp takes the name of the claim",
        ),
        pytest.param(
            annotated(**{"karpenter.sh/provisioner-hash": "1", "a": "b"}),
            annotated(a="b"),
            id="the provisioner hash goes because it is computed anew",
        ),
        pytest.param(
            annotated(**{"karpenter.k8s.aws/nodetemplate-hash": "1", "a": "b"}),
            annotated(a="b"),
            id="the node template hash goes because it is computed anew",
        ),
        pytest.param(
            annotated(**{"karpenter.sh/emptiness-timestamp": "2024-01-01T00:00:00Z", "a": "b"}),
            annotated(a="b"),
            id="the emptiness timestamp goes because a condition takes its place",
        ),
        pytest.param(
            annotated(**{"karpenter.sh/linked": "true", "a": "b"}),
            annotated(a="b"),
            id="the linked mark goes",
        ),
        pytest.param(
            labelled(
                **{
                    "karpenter.k8s.aws/instance-ami-id": "ami-1",
                    "karpenter.k8s.aws/instance-pods": "58",
                    "a": "b",
                }
            ),
            labelled(a="b"),
            id="the labels for image and pod count go",
        ),
        pytest.param(
            node(spec={"taints": [{"key": "karpenter.sh/not-ready", "effect": "NoSchedule"}]}),
            node(spec={"taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]}),
            id="the early not-ready taint of a stored node becomes unregistered",
        ),
        pytest.param(
            node(
                spec={
                    "taints": [
                        {
                            "key": "karpenter.sh/disruption",
                            "value": "disrupting",
                            "effect": "NoSchedule",
                        }
                    ]
                }
            ),
            node(spec={"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}),
            id="the disruption taint of a stored node becomes disrupted",
        ),
        pytest.param(
            node(
                spec={
                    "taints": [
                        {"key": "karpenter.sh/not-ready", "effect": "NoSchedule"},
                        {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
                    ]
                }
            ),
            node(spec={"taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]}),
            id="a taint that is there under its new name is not repeated",
        ),
        pytest.param(
            node(
                status={
                    "conditions": [
                        {"type": "MachineLaunched", "status": "True"},
                        {"type": "MachineRegistered", "status": "True"},
                        {"type": "MachineInitialized", "status": "True"},
                        {"type": "MachineEmpty", "status": "True"},
                        {"type": "MachineExpired", "status": "True"},
                        {"type": "MachineDrifted", "status": "True"},
                        {"type": "Ready", "status": "True"},
                    ]
                }
            ),
            node(
                status={
                    "conditions": [
                        {"type": "Launched", "status": "True"},
                        {"type": "Registered", "status": "True"},
                        {"type": "Initialized", "status": "True"},
                        {"type": "Drifted", "status": "True"},
                        {"type": "Ready", "status": "True"},
                    ]
                }
            ),
            id="machine conditions lose their prefix and the two gone ones disappear",
        ),
        pytest.param(
            pod({"nodeSelector": {OLD: "a", "x": "y"}}),
            pod({"nodeSelector": {NEW: "a", "x": "y"}}),
            id="the node selector of a pod follows",
        ),
        pytest.param(
            pod_requiring(expression(OLD, "In", "a"), expression("zone", "Exists")),
            pod_requiring(expression(NEW, "In", "a"), expression("zone", "Exists")),
            id="required node affinity follows",
        ),
        pytest.param(
            pod_requiring(expression(OLD, "DoesNotExist")),
            pod_requiring(expression(NEW, "DoesNotExist")),
            id="DoesNotExist on the old key implies it on the new one",
        ),
        pytest.param(
            pod_requiring(expression(OLD, "DoesNotExist"), expression(NEW, "DoesNotExist")),
            pod_requiring(expression(NEW, "DoesNotExist")),
            id="DoesNotExist on both keys is said once",
        ),
        pytest.param(
            pod_requiring(
                expression("karpenter.k8s.aws/instance-pods", "Gt", "20"), expression("z", "Exists")
            ),
            pod_requiring(expression("z", "Exists")),
            id="an expression on a gone label is dropped beside another one",
        ),
        pytest.param(
            pod(
                {
                    "affinity": {
                        "nodeAffinity": {
                            PREFERRED: [
                                {
                                    "weight": 1,
                                    "preference": {"matchExpressions": [expression(OLD, "Exists")]},
                                }
                            ]
                        }
                    }
                }
            ),
            pod(
                {
                    "affinity": {
                        "nodeAffinity": {
                            PREFERRED: [
                                {
                                    "weight": 1,
                                    "preference": {"matchExpressions": [expression(NEW, "Exists")]},
                                }
                            ]
                        }
                    }
                }
            ),
            id="preferred node affinity follows",
        ),
        pytest.param(
            pod(
                {
                    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": OLD}],
                    "affinity": {
                        "podAffinity": {REQUIRED: [{"topologyKey": OLD}]},
                        "podAntiAffinity": {
                            PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": OLD}}]
                        },
                    },
                }
            ),
            pod(
                {
                    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": NEW}],
                    "affinity": {
                        "podAffinity": {REQUIRED: [{"topologyKey": NEW}]},
                        "podAntiAffinity": {
                            PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": NEW}}]
                        },
                    },
                }
            ),
            id="topology keys follow",
        ),
        pytest.param(
            {
                "apiVersion": "karpenter.k8s.aws/v1",
                "kind": "EC2NodeClass",
                "spec": {"tags": {OLD: "a", "karpenter.sh/managed-by": "c", "team": "x"}},
            },
            {
                "apiVersion": "karpenter.k8s.aws/v1",
                "kind": "EC2NodeClass",
                "spec": {"tags": {NEW: "a", "eks:eks-cluster-name": "c", "team": "x"}},
            },
            id="tags of a node class follow",
        ),
        pytest.param(
            {
                "apiVersion": "karpenter.sh/v1beta1",
                "kind": "NodePool",
                "spec": {
                    "template": {
                        "metadata": {
                            "labels": {OLD: "a"},
                            "annotations": {"karpenter.sh/do-not-consolidate": "true"},
                        },
                        "spec": {"requirements": [expression(OLD, "Exists")]},
                    }
                },
            },
            {
                "apiVersion": "karpenter.sh/v1beta1",
                "kind": "NodePool",
                "spec": {
                    "template": {
                        "metadata": {
                            "labels": {NEW: "a"},
                            "annotations": {"karpenter.sh/do-not-disrupt": "true"},
                        },
                        "spec": {"requirements": [expression(NEW, "Exists")]},
                    }
                },
            },
            id="the template of a NodePool follows",
        ),
        pytest.param(
            {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim",
                "metadata": {"labels": {OLD: "a"}},
                "spec": {"requirements": [expression(OLD, "In", "a")]},
                "status": {"conditions": [{"type": "MachineLaunched"}]},
            },
            {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim",
                "metadata": {"labels": {NEW: "a"}},
                "spec": {"requirements": [expression(NEW, "In", "a")]},
                "status": {"conditions": [{"type": "Launched"}]},
            },
            id="a NodeClaim follows with labels, requirements and conditions",
        ),
        pytest.param(
            {
                "apiVersion": "karpenter.sh/v1alpha5",
                "kind": "Provisioner",
                "spec": {
                    "labels": {OLD: "a"},
                    "annotations": {"karpenter.sh/do-not-evict": "true"},
                    "requirements": [expression(OLD, "Exists")],
                    "provider": {"tags": {OLD: "a"}},
                },
            },
            {
                "apiVersion": "karpenter.sh/v1alpha5",
                "kind": "Provisioner",
                "spec": {
                    "labels": {NEW: "a"},
                    "annotations": {"karpenter.sh/do-not-disrupt": "true"},
                    "requirements": [expression(NEW, "Exists")],
                    "provider": {"tags": {NEW: "a"}},
                },
            },
            id="a Provisioner follows with everything it puts on nodes",
        ),
        pytest.param(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "spec": {
                    "nodeAffinity": {
                        "required": {
                            "nodeSelectorTerms": [{"matchExpressions": [expression(OLD, "Exists")]}]
                        }
                    }
                },
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "spec": {
                    "nodeAffinity": {
                        "required": {
                            "nodeSelectorTerms": [{"matchExpressions": [expression(NEW, "Exists")]}]
                        }
                    }
                },
            },
            id="the node affinity of a volume follows",
        ),
    ],
)
def test_a_renamed_key_is_rewritten(before: dict[str, Any], after: dict[str, Any]) -> None:
    renamed = rename_keys(before)

    assert after == renamed.object
    assert renamed.changes


TEMPLATE_BEFORE = {
    "metadata": {"annotations": {"karpenter.sh/do-not-evict": "true"}},
    "spec": {"nodeSelector": {OLD: "a"}},
}
TEMPLATE_AFTER = {
    "metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
    "spec": {"nodeSelector": {NEW: "a"}},
}


@pytest.mark.parametrize(
    ("api_version", "kind", "path"),
    [
        pytest.param("apps/v1", "Deployment", ("spec", "template"), id="in a Deployment"),
        pytest.param("apps/v1", "StatefulSet", ("spec", "template"), id="in a StatefulSet"),
        pytest.param("apps/v1", "DaemonSet", ("spec", "template"), id="in a DaemonSet"),
        pytest.param("apps/v1", "ReplicaSet", ("spec", "template"), id="in a ReplicaSet"),
        pytest.param("batch/v1", "Job", ("spec", "template"), id="in a Job"),
        pytest.param(
            "batch/v1", "CronJob", ("spec", "jobTemplate", "spec", "template"), id="in a CronJob"
        ),
        pytest.param("v1", "PodTemplate", ("template",), id="in a PodTemplate"),
        pytest.param(
            "v1", "ReplicationController", ("spec", "template"), id="in a ReplicationController"
        ),
        pytest.param(
            "argoproj.io/v1alpha1", "Rollout", ("spec", "template"), id="in a workload of others"
        ),
    ],
)
def test_pod_templates_are_rewritten(api_version: str, kind: str, path: tuple[str, ...]) -> None:
    def workload(template: dict[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = template
        for key in reversed(path):
            body = {key: body}
        return {"apiVersion": api_version, "kind": kind, **body}

    renamed = rename_keys(workload(TEMPLATE_BEFORE))

    assert workload(TEMPLATE_AFTER) == renamed.object


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(
            pod({"tolerations": [{"key": "karpenter.sh/not-ready", "operator": "Exists"}]}),
            id="tolerations are not rewritten",
        ),
        pytest.param(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"labels": {OLD: "a"}},
                "spec": {
                    "selector": {"matchLabels": {OLD: "a"}},
                    "template": {"metadata": {"labels": {OLD: "a"}}},
                },
            },
            id="labels of pods and workloads stay because selectors refer to them",
        ),
        pytest.param(
            labelled(**{"karpenter.sh/provision-name": "a"}),
            id="a misspelling from a blog post is no key",
        ),
        pytest.param(
            node(spec={"taints": [{"key": "karpenter.sh/disruption", "effect": "NoSchedule"}]}),
            id="a taint with another value is somebody else's",
        ),
        pytest.param(
            {
                "apiVersion": "karpenter.k8s.aws/v1",
                "kind": "EC2NodeClass",
                "spec": {"subnetSelectorTerms": [{"tags": {OLD: "a"}}]},
            },
            id="selector tags name resources that keep their tags",
        ),
        pytest.param(
            {"apiVersion": "example.com/v1", "kind": "Provisioner", "spec": {"labels": {OLD: "a"}}},
            id="a kind of the same name in another group is not ours",
        ),
        pytest.param({"kind": 7, "metadata": "text", "spec": []}, id="nonsense is left alone"),
    ],
)
def test_what_carries_no_renamed_key_is_unchanged(obj: dict[str, Any]) -> None:
    renamed = rename_keys(obj)

    assert obj == renamed.object
    assert renamed.changes == ()


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        pytest.param(
            labelled(**{OLD: "old", NEW: "new"}),
            labelled(**{NEW: "new"}),
            ("metadata", "labels", OLD),
            id="among labels",
        ),
        pytest.param(
            annotated(**{"karpenter.sh/do-not-disrupt": "1h", "karpenter.sh/do-not-evict": "true"}),
            annotated(**{"karpenter.sh/do-not-disrupt": "1h"}),
            ("metadata", "annotations", "karpenter.sh/do-not-evict"),
            id="among annotations",
        ),
        pytest.param(
            pod({"nodeSelector": {OLD: "old", NEW: "new"}}),
            pod({"nodeSelector": {NEW: "new"}}),
            ("spec", "nodeSelector", OLD),
            id="in a node selector",
        ),
    ],
)
def test_the_new_key_wins_over_the_old_one_with_a_warning(
    before: dict[str, Any], after: dict[str, Any], path: Path
) -> None:
    renamed = rename_keys(before)

    assert after == renamed.object
    assert [path] == [warning.path for warning in renamed.warnings]
    assert "is set as well and wins" in renamed.warnings[0].message


def test_the_last_expression_of_a_term_stays_with_a_warning() -> None:
    gone = pod_requiring(expression("karpenter.k8s.aws/instance-pods", "Gt", "20"))

    renamed = rename_keys(gone)

    assert gone == renamed.object
    assert [warning.message.partition(";")[0] for warning in renamed.warnings] == [
        "no node carries karpenter.k8s.aws/instance-pods any more"
    ]


def test_the_wider_meaning_of_do_not_consolidate_is_pointed_out() -> None:
    renamed = rename_keys(annotated(**{"karpenter.sh/do-not-consolidate": "true"}))

    assert [warning.message for warning in renamed.warnings] == [
        "became karpenter.sh/do-not-disrupt, which blocks every voluntary disruption"
    ]


def test_changes_name_the_path_the_author_wrote() -> None:
    renamed = rename_keys(labelled(**{OLD: "a", "karpenter.k8s.aws/instance-pods": "58"}))

    assert (
        Change(("metadata", "labels", OLD), OLD, NEW),
        Change(
            ("metadata", "labels", "karpenter.k8s.aws/instance-pods"),
            "karpenter.k8s.aws/instance-pods",
            None,
        ),
    ) == renamed.changes


def test_a_path_after_a_dropped_requirement_leads_back_to_the_input() -> None:
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "spec": {
            "template": {
                "metadata": {"labels": {OLD: "a"}},
                "spec": {
                    "requirements": [
                        expression("karpenter.k8s.aws/instance-ami-id", "Exists"),
                        expression("kept", "Exists"),
                    ]
                },
            }
        },
    }
    requirements = ("spec", "template", "spec", "requirements")

    renamed = rename_keys(pool)

    assert [expression("kept", "Exists")] == renamed.object["spec"]["template"]["spec"][
        "requirements"
    ]
    assert (*requirements, 1, "key") == renamed.origins.of((*requirements, 0, "key")).path
    assert renamed.origins.of(("spec", "template", "metadata", "labels", NEW)).path == (
        "spec",
        "template",
        "metadata",
        "labels",
        OLD,
    )


def test_renaming_again_changes_nothing() -> None:
    once = rename_keys(pod_requiring(expression(OLD, "DoesNotExist"))).object

    again = rename_keys(once)

    assert once == again.object
    assert again.changes == ()

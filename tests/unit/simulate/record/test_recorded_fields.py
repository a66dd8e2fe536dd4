"""What of an object gets into a recording, and what never does."""

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.recorded import KEY
from helpers.rights import INSTALL, granted
from karpenter.api.meta import group_of
from karpenter.kube.kinds import resource_of
from karpenter.simulate.record.facts import Facts
from karpenter.simulate.record.kinds import RECORDED, taken
from karpenter.simulate.record.mishaps import Mishaps
from karpenter.simulate.record.names import Names
from karpenter.simulate.record.recorder import Recorder
from karpenter.simulate.record.scenario_file import ScenarioText, Supply
from karpenter.simulate.record.segments import Compressor, key_of

Json = dict[str, Any]
HASHED = Names(KEY, is_hashing=True)
PLAIN = Names(KEY, is_hashing=False)


def container(mark: Any) -> Json:
    """A container with a mark wherever somebody could have put a secret."""
    return {
        "name": mark(),
        "image": f"registry.example.com/{mark()}:1",
        "command": [mark()],
        "args": ["--token", mark()],
        "workingDir": mark(),
        "env": [
            {"name": mark(), "value": mark()},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": mark(), "key": mark()}}},
        ],
        "envFrom": [{"configMapRef": {"name": mark()}}],
        "livenessProbe": {"httpGet": {"path": f"/{mark()}", "port": 80}},
        "lifecycle": {"preStop": {"exec": {"command": [mark()]}}},
        "ports": [{"name": mark(), "containerPort": 80, "hostPort": 80, "hostIP": mark()}],
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [{"name": mark(), "mountPath": f"/{mark()}"}],
        "securityContext": {"seLinuxOptions": {"user": mark()}},
    }


def pod_spec(mark: Any, name: Any) -> Json:
    selector = {
        "matchLabels": {"app": mark()},
        "matchExpressions": [{"key": "tier", "operator": "In", "values": [mark(), mark()]}],
    }
    term = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": selector}
    node_term = {"matchExpressions": [{"key": "team", "operator": "In", "values": [mark()]}]}
    return {
        "containers": [container(mark)],
        "initContainers": [container(mark)],
        "nodeName": name(),
        "nodeSelector": {"team": mark(), "topology.kubernetes.io/zone": "zone-a"},
        "tolerations": [{"key": "team", "value": mark(), "effect": "NoSchedule"}],
        "affinity": {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [node_term]}
            },
        },
        "topologySpreadConstraints": [{**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
        "volumes": [
            {"name": mark(), "persistentVolumeClaim": {"claimName": mark()}},
            {"name": mark(), "secret": {"secretName": mark()}},
            {"name": mark(), "hostPath": {"path": f"/{mark()}"}},
        ],
        "serviceAccountName": mark(),
        "imagePullSecrets": [{"name": mark()}],
        "hostname": mark(),
        "subdomain": mark(),
        "priorityClassName": mark(),
        "schedulerName": mark(),
        "hostAliases": [{"ip": "10.1.2.3", "hostnames": [mark()]}],
        "dnsConfig": {"searches": [mark()]},
    }


def metadata(mark: Any, name: Any) -> Json:
    return {
        "name": name(),
        "namespace": mark(),
        "uid": "0f0e-17",
        "labels": {"app": mark(), "team": mark()},
        "annotations": {
            mark(): mark(),
            "karpenter.sh/do-not-disrupt": mark(),
            "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"env": mark()}),
        },
        "managedFields": [{"manager": mark(), "fieldsV1": {f"f:{mark()}": {}}}],
        "finalizers": [f"example.com/{mark()}"],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Workflow", "name": mark(), "uid": "7", "controller": True}
        ],
    }


def hostile(kind: str, mark: Any, name: Any) -> Json:
    """An object of a kind with marks everywhere."""
    template = {"metadata": metadata(mark, name), "spec": pod_spec(mark, name)}
    selector = {"matchLabels": {"app": mark()}}
    message = {"type": "Ready", "status": "True", "reason": "Fine", "message": mark()}
    spec: Json = {
        "template": template,
        "jobTemplate": {"metadata": metadata(mark, name), "spec": {"template": template}},
        "selector": selector,
        "schedule": "*/5 * * * *",
        "serviceName": mark(),
        "volumeClaimTemplates": [
            {"metadata": metadata(mark, name), "spec": {"storageClassName": mark()}}
        ],
        "scaleTargetRef": {"kind": "Deployment", "name": mark()},
        "metrics": [{"type": "External", "external": {"metric": {"name": mark()}}}],
        "storageClassName": mark(),
        "volumeName": mark(),
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": mark()},
        "claimRef": {"name": mark(), "namespace": mark()},
        "userData": mark(),
        "role": mark(),
        "amiSelectorTerms": [{"id": mark()}],
        "tags": {mark(): mark()},
        "providerID": f"aws:///zone-a/{mark()}",
        "requirements": [{"key": "team", "operator": "In", "values": [mark()]}],
        "nodeClassRef": {"group": "karpenter.sh", "kind": "KWOKNodeClass", "name": mark()},
        "taints": [{"key": "team", "value": mark(), "effect": "NoSchedule"}],
        "podTemplateRef": {"name": mark()},
        "limits": [{"type": "Container", "default": {"cpu": "1"}}],
    }
    if kind == "Pod":
        spec = pod_spec(mark, name)
    elif kind == "NodePool":
        spec = {"template": {"metadata": metadata(mark, name), "spec": spec}}
    return {
        "metadata": metadata(mark, name),
        "spec": spec,
        "involvedObject": {"kind": "NodeClaim", "name": mark(), "uid": mark()},
        "reason": "SpotInterrupted",
        "message": mark(),
        "reportingInstance": mark(),
        "provisioner": "ebs.csi.aws.com",
        "parameters": {"kmsKeyId": mark()},
        "handler": "runc",
        "description": mark(),
        "data": {mark(): mark()},
        "status": {
            "phase": "Running",
            "message": mark(),
            "nodeName": name(),
            "podIP": "10.1.2.3",
            "addresses": [{"type": "InternalIP", "address": "10.9.8.7"}],
            "images": [{"names": [mark()]}],
            "nodeInfo": {"machineID": mark()},
            "conditions": [message, {**message, "type": "PodScheduled"}],
            "containerStatuses": [
                {
                    "name": mark(),
                    "image": mark(),
                    "imageID": mark(),
                    "state": {"terminated": {"exitCode": 0, "message": mark(), "reason": "Done"}},
                }
            ],
            "capacity": {"cpu": "4"},
        },
    }


def written(objects: list[tuple[str, Json]], names: Names) -> bytes:
    """The files of a recording of these objects, uncompressed."""
    pieces: list[bytes] = []
    compressor, facts, supply = Compressor(pieces.append), Facts(), Supply()
    mishaps = Mishaps()

    def changed(change: Any) -> None:
        facts.take(change)
        mishaps.take(change)
        if change.after is not None:
            supply.take(change.key, change.after)

    recorder = Recorder(names, lambda: 1_900_000_000.0, compressor.add, changed)
    for kind, obj in objects[::2]:
        recorder.put(kind, obj)
    recorder.begin(1, None)
    for kind, obj in objects[1::2]:
        recorder.put(kind, obj)
    recorder.end()
    compressor.finish()
    found = [taken(kind, obj, names) for kind, obj in objects]
    supply.begin([(key_of(obj), obj) for obj in found if obj is not None])
    scenario = ScenarioText(facts, mishaps, supply).text(1_900_000_000.0, 1_900_000_001.0)
    return zlib.decompress(b"".join(pieces), 31) + scenario.encode()


def whole_names(text: str) -> Json:
    return {"metadata": {"name": text, "namespace": text}}


@pytest.mark.case("SIM-44")
@settings(max_examples=10)
@given(
    st.lists(st.text("abcdefghijklmnopqrstuvwxyz", min_size=4, max_size=8), min_size=3, max_size=5)
)
def test_no_marked_string_is_in_the_files(words: list[str]) -> None:
    marks: list[str] = []

    def mark() -> str:
        marks.append(f"mark{words[len(marks) % len(words)]}{len(marks)}q")
        return marks[-1]

    objects = [(each.kind, hostile(each.kind, mark, mark)) for each in RECORDED]

    text = written(objects, HASHED)

    assert len(marks) > 200
    assert [] == [each for each in marks if each.encode() in text]
    assert b"10.1.2.3" not in text
    assert b"10.9.8.7" not in text
    assert b'"cpu":"1"' in text  # and yet something is written


@pytest.mark.case("SIM-44")
def test_without_hashing_names_stay_and_everything_else_goes() -> None:
    secrets: list[str] = []

    def mark() -> str:
        secrets.append(f"mark-{len(secrets)}-q")
        return secrets[-1]

    one = hostile("Pod", mark, lambda: "web-0")
    one["spec"]["containers"] = [container(mark)]
    pod = taken("Pod", one, PLAIN)
    found = json.dumps(pod)

    assert pod is not None
    (only,) = pod["spec"]["containers"]
    assert {"image", "ports", "resources"} == only.keys()
    assert '"web-0"' in found
    assert one["spec"]["containers"][0]["env"][0]["value"] not in found
    assert one["spec"]["containers"][0]["args"][1] not in found
    assert one["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] not in found


@pytest.mark.parametrize("spoilt", [None, 7, "text", [], [None], {}, {"spec": 3}, {"metadata": []}])
def test_objects_of_any_shape_are_taken_without_an_error(spoilt: Any) -> None:
    base = {"metadata": {"name": "a"}, "spec": spoilt, "status": {"conditions": spoilt}}

    for each in RECORDED:
        found = taken(each.kind, base, PLAIN)
        assert each.reasons if found is None else found["metadata"] == {"name": "a"}


def test_equal_names_stay_equal_and_ordinals_stay() -> None:
    assert HASHED.name("web") == HASHED.value("app", "web")
    assert HASHED.name("web-3") == f"{HASHED.name('web')}-3"
    assert HASHED.name("web") != HASHED.name("wob")
    assert HASHED.name("web") != Names(b"another", is_hashing=True).name("web")
    assert HASHED.name("kube-system") == "kube-system"
    assert HASHED.value("topology.kubernetes.io/zone", "zone-a") == "zone-a"
    assert HASHED.value("karpenter.sh/nodepool", "shop") == HASHED.name("shop")


@pytest.mark.parametrize(
    "text",
    [
        "ip-10-0-1-17.ec2.internal",
        "10.0.0.1",
        "123456789012.dkr.ecr.example.com/web:1",
        "a-123456789012",
    ],
)
def test_addresses_and_account_numbers_never_stay(text: str) -> None:
    assert text != PLAIN.name(text)
    assert text != PLAIN.image(text)
    assert PLAIN.name(text) == PLAIN.name(text)


@pytest.mark.parametrize(
    "text", ["web-7d9f8b6c5-x2k4p", "backup-28391234", "v1.2.3", "example.com/web:1"]
)
def test_other_names_do(text: str) -> None:
    assert text == PLAIN.name(text) == PLAIN.image(text)


def test_pods_whose_owner_is_recorded_do_not_repeat_it() -> None:
    owner = {"kind": "ReplicaSet", "name": "web-1", "uid": "2", "controller": True}
    pod = {
        "metadata": {"name": "web-1-x", "ownerReferences": [owner], "labels": {"app": "web"}},
        "spec": {"nodeName": "a", "containers": [{"image": "i"}]},
    }

    found = taken("Pod", pod, PLAIN)

    assert found is not None
    assert found["spec"] == {"nodeName": "a", "containers": [{"image": "i"}]}
    assert "labels" not in found["metadata"]
    above = {"ownerReferences": [{**owner, "kind": "Deployment"}]}
    of_deployment = {"metadata": {**above, "labels": {"app": "web"}}, "spec": {"replicas": 3}}
    made = taken("ReplicaSet", of_deployment, PLAIN)
    assert made == {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": above}


def test_of_an_event_only_what_happened_to_which_claim_is_taken() -> None:
    event = {
        "metadata": {"name": "a.1", "namespace": "default", "annotations": {"a": "b"}},
        "involvedObject": {"kind": "NodeClaim", "name": "a", "uid": "7"},
        "reason": "InsufficientCapacityError",
        "message": "account 123456789012 has no capacity",
        "firstTimestamp": "2030-01-07T00:00:00Z",
        "count": 3,
    }

    assert taken("Event", event, PLAIN) == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a.1", "namespace": "default"},
        "involvedObject": {"name": "a"},
        "reason": "InsufficientCapacityError",
        "firstTimestamp": "2030-01-07T00:00:00Z",
    }
    assert taken("Event", {**event, "reason": "Launched"}, PLAIN) is None


def test_the_role_allows_what_is_recorded_and_not_one_verb_more() -> None:
    meant = {
        (group_of(each.model), resource_of(each.model).plural, verb)
        for each in RECORDED
        for verb in ("get", "list", "watch")
    }

    assert meant == granted(INSTALL / "rbac-record.yaml")
    assert {"rules", "metadata", "kind", "apiVersion"} == role().keys()


def role() -> Json:
    found = yaml.safe_load_all(Path(INSTALL / "rbac-record.yaml").read_text("utf-8"))
    return next(each for each in found if each["kind"] == "ClusterRole")

"""The codec knows its kinds, forgives what Kubernetes forgives, and says where the rest is wrong."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.wire_samples import error_of, pod_text, sample
from karpenter.api import codec
from karpenter.api.codec import Unreadable, decode_event, decode_list, unreadable_in
from karpenter.api.depth import without_depths
from karpenter.api.meta import ObjectMeta, Resource, Status, kind_of
from karpenter.api.nodes import Node
from karpenter.api.pods import Container, Pod, PodSpec
from karpenter.api.problems import UnknownKindError
from karpenter.api.storage import CSINode
from karpenter.api.times import FIRST, LAST

KNOWN = """
apps/v1 DaemonSet
apps/v1 Deployment
apps/v1 ReplicaSet
apps/v1 StatefulSet
autoscaling.x-k8s.io/v1beta1 CapacityBuffer
batch/v1 CronJob
batch/v1 Job
coordination.k8s.io/v1 Lease
cost.karpenter.sh/v1alpha1 Commitment
karpenter.k8s.aws/v1 EC2NodeClass
karpenter.k8s.aws/v1alpha1 AWSNodeTemplate
karpenter.k8s.aws/v1beta1 EC2NodeClass
karpenter.kwok.sh/v1alpha1 KWOKNodeClass
karpenter.sh/v1 NodeClaim
karpenter.sh/v1 NodePool
karpenter.sh/v1alpha1 NodeOverlay
karpenter.sh/v1alpha5 Provisioner
karpenter.sh/v1beta1 NodeClaim
karpenter.sh/v1beta1 NodePool
policy/v1 PodDisruptionBudget
resource.k8s.io/v1 DeviceClass
resource.k8s.io/v1 ResourceClaim
resource.k8s.io/v1 ResourceClaimTemplate
resource.k8s.io/v1 ResourceSlice
scheduling.k8s.io/v1 PriorityClass
storage.k8s.io/v1 CSINode
storage.k8s.io/v1 StorageClass
storage.k8s.io/v1 VolumeAttachment
v1 ConfigMap
v1 Event
v1 LimitRange
v1 Namespace
v1 Node
v1 PersistentVolume
v1 PersistentVolumeClaim
v1 Pod
v1 PodTemplate
v1 ReplicationController
v1 Service
""".strip().splitlines()


def test_the_kinds_are_these_and_no_others() -> None:
    assert sorted(f"{kind.api_version} {kind_of(kind)}" for kind in codec.KINDS) == KNOWN


@pytest.mark.parametrize("line", KNOWN)
def test_each_kind_is_known(line: str) -> None:
    api_version, kind = line.split()

    assert codec.is_known(api_version, kind)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        pytest.param("karpenter.sh/v2", "NodePool", id="a version that does not exist"),
        pytest.param("karpenter.sh/v1", "Pod", id="a kind of another group"),
        pytest.param("compute.k8s.aws/v1beta1", "EC2NodeClass", id="a group nobody serves"),
        pytest.param("v1", "pod", id="a kind in lower case"),
    ],
)
def test_other_kinds_are_not_known(api_version: str, kind: str) -> None:
    error = error_of(codec.convert, {"apiVersion": api_version, "kind": kind})

    assert not codec.is_known(api_version, kind)
    assert isinstance(error, UnknownKindError)
    assert (api_version, kind) == (error.api_version, error.kind)
    assert f'kind: no matches for kind "{kind}" in version "{api_version}"' == str(error)


def test_a_device_claim_of_v1beta2_has_the_shape_of_v1() -> None:
    found = sample("ResourceClaim")

    older = codec.convert({**found, "apiVersion": "resource.k8s.io/v1beta2"})

    assert codec.convert(found) == older


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0000-01-01T00:00:00Z", FIRST), ("10000-02-03T04:05:06Z", LAST)],
)
def test_a_time_beyond_all_years_is_the_nearest_there_is(text: str, expected: datetime) -> None:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": text}
    data = json.dumps({"items": [{"status": {"conditions": [condition]}}]}).encode()

    (found,) = decode_list(data, Node).items

    assert expected == found.status.conditions[0].last_transition_time


def test_an_object_that_does_not_fit_is_named_and_costs_no_other() -> None:
    metadata = {"name": "b", "namespace": "n", "uid": "u", "resourceVersion": "7"}
    bad = {"metadata": metadata, "spec": {"containers": 3}}
    problem = "spec.containers: expected a list, got a whole number"
    data = json.dumps({"metadata": {"resourceVersion": "9"}, "items": [{}, bad, {}]}).encode()
    line = json.dumps({"type": "MODIFIED", "object": bad}).encode()

    page, event = decode_list(data, Pod), decode_event(line, Pod)

    expected = Unreadable("b", "n", "u", "7", problem)
    assert ((Pod(), Pod()), "9") == (page.items, page.metadata.resource_version)
    assert (expected,) == unreadable_in(page)
    assert ("MODIFIED", expected) == (event.type, event.object)


def test_a_list_that_can_be_read_lacks_nothing() -> None:
    assert () == unreadable_in(decode_list(b'{"items":[{}]}', Pod))


@given(
    st.recursive(
        st.none() | st.text() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=30,
    ),
    st.integers(1, 6),
)
def test_data_is_cut_off_below_a_depth_and_nowhere_else(value: object, deepest: int) -> None:
    cut = json.loads(without_depths(json.dumps(value).encode(), deepest))

    assert _cut_off(value, deepest) == cut
    assert value == json.loads(without_depths(json.dumps(value).encode()))


def _cut_off(value: object, levels: int) -> object:
    if not isinstance(value, dict | list):
        return value
    if levels == 0:
        return None
    if isinstance(value, list):
        return [_cut_off(each, levels - 1) for each in value]
    return {key: _cut_off(each, levels - 1) for key, each in value.items()}


def test_a_bottomless_list_is_refused() -> None:
    error = error_of(decode_list, b'{"items":' + b"[" * 100_000, Pod)

    assert str(error) == "the data is nested too deeply"


def test_a_list_keeps_its_metadata_and_its_order() -> None:
    data = b"""{"kind": "PodList", "apiVersion": "v1",
        "metadata": {"resourceVersion": "9", "continue": "abc", "remainingItemCount": 7},
        "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}"""

    page = decode_list(data, Pod)

    meta = page.metadata
    assert (
        meta.resource_version,
        meta.continue_token,
        meta.remaining_item_count,
    ) == ("9", "abc", 7)
    assert [item.metadata.name for item in page.items] == ["a", "b"]


def test_a_list_of_nothing_may_be_null() -> None:
    assert decode_list(b'{"metadata":{},"items":null}', Pod).items == ()


def test_a_null_in_one_item_of_a_list_is_forgiven() -> None:
    data = b'{"metadata":{"resourceVersion":"9"},"items":[{"spec":{"drivers":null}},{}]}'

    page = decode_list(data, CSINode)

    assert (CSINode(), CSINode()) == page.items
    assert page.metadata.resource_version == "9"


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(
            {"spec": {"containers": [{}]}},
            "items[1].spec.containers[0].name: required field is missing",
            id="a field is missing",
        ),
        pytest.param({"kind": "Node"}, "items[1].kind: invalid value 'Node'", id="another kind"),
        pytest.param(7, "items[1]: expected a map, got a whole number", id="no object"),
    ],
)
def test_an_item_that_does_not_fit_is_named_by_its_index(item: object, expected: str) -> None:
    data = json.dumps({"items": [{}, item]}).encode()

    assert expected == str(error_of(decode_list, data, Pod))


@pytest.mark.parametrize("event_type", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"])
def test_a_watch_event_holds_an_object(event_type: str) -> None:
    line = json.dumps({"type": event_type, "object": {"kind": "Pod", "metadata": {"name": "a"}}})

    event = decode_event(line.encode(), Pod)

    assert (event_type, Pod(metadata=ObjectMeta(name="a"))) == (event.type, event.object)


def test_a_watch_error_holds_a_status() -> None:
    line = b"""{"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "message": "too old resource version", "reason": "Expired",
        "code": 410, "details": {"retryAfterSeconds": 1, "causes": [{"field": "a"}]}}}"""

    event = decode_event(line, Pod)

    assert isinstance(event.object, Status)
    assert (event.object.code, event.object.reason) == (410, "Expired")
    assert event.object.details is not None
    assert (
        event.object.details.causes[0].field,
        event.object.details.retry_after_seconds,
    ) == ("a", 1)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(
            b'{"type":"ADDED","object":{"spec":{"containers":3}}}',
            "object.spec.containers: expected a list, got a whole number",
            id="the object does not fit",
        ),
        pytest.param(
            b'{"type":"ADDED","object":null}', "object: expected a map, got null", id="no object"
        ),
        pytest.param(
            b'{"type":"ADDED","object"', "the data is not JSON: input data was truncated", id="cut"
        ),
    ],
)
def test_a_watch_event_that_does_not_fit_is_refused(line: bytes, expected: str) -> None:
    assert expected == str(error_of(decode_event, line, Pod))


def test_unknown_fields_are_ignored() -> None:
    data = pod_text(
        metadata={"name": "a", "selfLink": "/x"}, spec={"dnsPolicy": {"deep": [1]}}, new=1
    )

    assert Pod(metadata=ObjectMeta(name="a")) == codec.decode(data)


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        pytest.param(Pod(), b'{"apiVersion":"v1","kind":"Pod"}', id="nothing but defaults"),
        pytest.param(
            Pod(metadata=ObjectMeta(name="a"), spec=PodSpec(containers=(Container(name="b"),))),
            b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},'
            b'"spec":{"containers":[{"name":"b"}]}}',
            id="what was set",
        ),
        pytest.param(
            codec.convert({"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool"}),
            b'{"apiVersion":"karpenter.sh/v1beta1","kind":"NodePool"}',
            id="an older version under its own name",
        ),
        pytest.param(
            Status(status="Failure", code=409),
            b'{"apiVersion":"v1","kind":"Status","status":"Failure","code":409}',
            id="a status",
        ),
    ],
)
def test_encoding_leaves_defaults_out(resource: Resource | Status, expected: bytes) -> None:
    assert expected == codec.encode(resource)
    assert json.loads(expected) == codec.to_plain(resource)


def test_a_time_is_encoded_as_kubernetes_writes_it() -> None:
    created = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)

    text = codec.encode(Pod(metadata=ObjectMeta(creation_timestamp=created)))

    assert b'"creationTimestamp":"2026-03-01T12:00:00Z"' in text

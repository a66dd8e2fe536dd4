"""Requests that are legal but extreme: what an API server takes is taken, within its limits."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from helpers.server import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    TABLE,
    Answer,
    Cluster,
    cluster,
    config_map,
    crd,
    deployment,
    manifest,
    pod,
)
from karpenter.api.depth import DEEPEST
from karpenter_sandbox.store.store import LARGEST_OBJECT

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
GADGETS = "/apis/example.com/v1/namespaces/default/gadgets"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LONGEST = 2**63 - 1
DIGITS = "1" * 5000
FORCED = {"fieldManager": "m", "force": "true"}
UNFIT = "the server rejected our request due to an error in our request"

T = TypeVar("T")


@pytest.fixture
def api() -> Cluster:
    made = cluster()
    made.create(crd())
    made.create(gadget())
    made.create(config_map(a="1"))
    made.create(deployment())
    return made


def gadget(name: str = "gadget", **spec: Any) -> dict[str, Any]:
    return manifest("example.com/v1", "Gadget", name, spec=spec)


def nested(levels: int) -> dict[str, Any]:
    """An object in an object, so many times."""
    inner: dict[str, Any] = {}
    for _ in range(levels - 1):
        inner = {"a": inner}
    return inner


def deep(body: Any, levels: int) -> bytes:
    """A body in which an object of so many levels stands for the text ``DEEP``."""
    return (
        json.dumps(body)
        .replace('"DEEP"', '{"a":' * (levels - 1) + "{}" + "}" * (levels - 1))
        .encode()
    )


def below(frames: int, ask: Callable[[], T]) -> T:
    """Ask with so many calls on the stack, as where a server hangs below a framework."""
    return ask() if frames == 0 else below(frames - 1, ask)


def with_number(obj: dict[str, Any], number: str) -> bytes:
    """An object in which a number stands for the text ``NUMBER``, whatever it looks like."""
    return json.dumps(obj).replace('"NUMBER"', number).encode()


class TestNumbers:
    @pytest.mark.parametrize("number", [DIGITS, f"-{DIGITS}", "1" * 400, "1e5000", "-1e309"])
    @pytest.mark.parametrize(
        ("path", "obj"),
        [
            pytest.param(DEPLOYMENTS, deployment("b", replicas="NUMBER"), id="replicas"),
            pytest.param(GADGETS, gadget("b", size="NUMBER"), id="a field of a custom resource"),
        ],
    )
    def test_beyond_all_bounds_are_bad_requests(
        self, api: Cluster, path: str, obj: dict[str, Any], number: str
    ) -> None:
        answer = api.call("POST", path, with_number(obj, number))

        assert (400, "BadRequest") == (answer.status, answer.body["reason"])
        kind = obj["kind"]
        start = f'{kind} in version "v1" cannot be handled as a {kind}: json: cannot unmarshal'
        assert answer.message.startswith(f"{start} number {number} into Go value of type float64")

    @pytest.mark.parametrize("kind", [MERGE, JSON_PATCH, STRATEGIC])
    def test_in_patches_too(self, api: Cluster, kind: str) -> None:
        patch: Any = {"spec": {"replicas": "NUMBER"}}
        if kind == JSON_PATCH:
            patch = [{"op": "replace", "path": "/spec/replicas", "value": "NUMBER"}]

        answer = api.call(
            "PATCH", f"{DEPLOYMENTS}/web", with_number(patch, DIGITS), content_type=kind
        )

        assert (400, "BadRequest") == (answer.status, answer.body["reason"])
        assert answer.message.startswith("error decoding patch: json: cannot unmarshal number 1")

    @pytest.mark.parametrize("amount", ["1e308", "-1e-308", "1e1000", "1e-1000"])
    def test_amounts_beyond_every_machine_are_amounts(self, api: Cluster, amount: str) -> None:
        made = pod("big")
        made["spec"]["containers"][0]["resources"] = {"limits": {"cpu": amount}}

        answer = api.call("POST", PODS, made)

        assert (422 if amount.startswith("-") else 201) == answer.status

    def test_an_amount_keeps_its_form(self, api: Cluster) -> None:
        made = pod("big")
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1e308"}}

        created = api.create(made)

        assert {"cpu": "100e306"} == created["spec"]["containers"][0]["resources"]["requests"]

    @pytest.mark.parametrize("text", ["9" * 5000, str(2**63), str(-(2**63) - 1)])
    @pytest.mark.parametrize("name", ["limit", "timeoutSeconds", "gracePeriodSeconds"])
    def test_in_a_query_they_are_out_of_range(self, api: Cluster, name: str, text: str) -> None:
        is_deletion = name == "gracePeriodSeconds"
        path = f"{MAPS}/settings" if is_deletion else MAPS

        answer = api.call("DELETE" if is_deletion else "GET", path, **{name: text})

        expected = f'strconv.ParseInt: parsing "{text}": value out of range'
        assert (400, expected) == (answer.status, answer.message)

    @pytest.mark.parametrize("text", ["1_000", " 1", "\N{ARABIC-INDIC DIGIT ONE}", "1.0", "--1"])
    def test_what_only_python_takes_for_a_number_is_none(self, api: Cluster, text: str) -> None:
        answer = api.call("GET", MAPS, limit=text)

        assert (400, f'strconv.ParseInt: parsing "{text}": invalid syntax') == (
            answer.status,
            answer.message,
        )

    def test_a_resource_version_of_many_digits(self, api: Cluster) -> None:
        answer = api.call("GET", MAPS, resourceVersion="9" * 5000)

        assert 400 == answer.status
        assert answer.message.endswith("value out of range")

    def test_secrets_that_are_not_even_ascii(self, api: Cluster) -> None:
        body = manifest("v1", "Secret", "s", data={"key": "ä"})

        answer = api.call("POST", "/api/v1/namespaces/default/secrets", body)

        assert 400 == answer.status
        assert "illegal base64 data at input byte 0" in answer.message


class TestGracePeriods:
    # Go counts nanoseconds in 64 bits, so the longest period of all is one second into the past
    MOMENTS = (
        (LONGEST, "2029-12-31T23:59:59Z"),
        (10**11, "2276-02-08T11:53:51Z"),
        (10**9, "2061-09-09T01:46:40Z"),
    )

    @pytest.mark.parametrize(("seconds", "moment"), MOMENTS)
    def test_of_a_pod_are_taken_as_they_are(self, api: Cluster, seconds: int, moment: str) -> None:
        api.create(pod(nodeName="n", terminationGracePeriodSeconds=seconds))

        answer = api.call("DELETE", f"{PODS}/web")

        metadata = answer.body["metadata"]
        assert (200, seconds) == (answer.status, metadata["deletionGracePeriodSeconds"])
        assert moment == metadata["deletionTimestamp"]

    @pytest.mark.parametrize(("seconds", "moment"), MOMENTS)
    @pytest.mark.parametrize("way", ["body", "query", "collection", "eviction"])
    def test_of_a_request_too(self, api: Cluster, way: str, seconds: int, moment: str) -> None:
        api.create(pod(nodeName="n"))
        wish = {"gracePeriodSeconds": seconds}
        if way == "body":
            answer = api.call("DELETE", f"{PODS}/web", wish)
        elif way == "query":
            answer = api.call("DELETE", f"{PODS}/web", gracePeriodSeconds=str(seconds))
        elif way == "collection":
            answer = api.call("DELETE", PODS, wish)
        else:
            body = manifest("policy/v1", "Eviction", "web", deleteOptions=wish)
            answer = api.call("POST", f"{PODS}/web/eviction", body)

        assert answer.status in {200, 201}, answer.body
        assert moment == api.get(pod()).body["metadata"]["deletionTimestamp"]

    def test_a_shorter_one_counts_from_the_beginning(self, api: Cluster) -> None:
        api.create(pod(nodeName="n"))
        api.call("DELETE", f"{PODS}/web", {"gracePeriodSeconds": 10**9})

        answer = api.call("DELETE", f"{PODS}/web", {"gracePeriodSeconds": 60})

        assert "2030-01-01T00:01:00Z" == answer.body["metadata"]["deletionTimestamp"]

    @pytest.mark.parametrize("seconds", [2**63, 10**30, 1.5, "30", [], {}, True])
    def test_what_is_no_number_of_64_bits_is_a_bad_request(
        self, api: Cluster, seconds: object
    ) -> None:
        api.create(pod(nodeName="n"))
        wish = {"gracePeriodSeconds": seconds}
        eviction = manifest("policy/v1", "Eviction", "web", deleteOptions=wish)

        answers = [
            api.call("DELETE", f"{PODS}/web", wish),
            api.call("DELETE", PODS, wish),
            api.call("POST", f"{PODS}/web/eviction", eviction),
        ]

        assert [400] * 3 == [answer.status for answer in answers]
        assert "deletionTimestamp" not in api.get(pod()).body["metadata"]


class TestDepth:
    """What is as deep as allowed goes all the way, also far down the stack of a framework."""

    def every_way(self, api: Cluster, levels: int) -> list[Answer]:
        """The answers to bodies that are so deep, and then to questions about what they made."""
        whole = deep(gadget("deep", inner="DEEP"), levels - 2)
        merged = deep({"x": "DEEP", "spec": "DEEP"}, levels - 1)
        replaced = deep([{"op": "replace", "path": "/spec", "value": "DEEP"}], levels - 2)
        tested = replaced.replace(b"replace", b"test")
        schemas = (levels - 5) // 2
        schema = (
            '{"type":"object","properties":{"a":' * schemas + '{"type":"string"}' + "}}" * schemas
        )
        defined = json.dumps(crd("things", "Thing", schema={"S": 1})).replace('{"S": 1}', schema)
        one, of_deep, settings = f"{GADGETS}/gadget", f"{GADGETS}/deep", f"{MAPS}/settings"
        asked: list[Callable[[], Answer]] = [
            lambda: api.call("POST", GADGETS, whole),
            lambda: api.call("PATCH", of_deep, whole, content_type=APPLY, **FORCED),
            lambda: api.call("PATCH", one, merged, content_type=MERGE),
            lambda: api.call("PATCH", settings, merged, content_type=MERGE),
            lambda: api.call("PATCH", settings, merged, content_type=STRATEGIC),
            lambda: api.call("PATCH", one, replaced, content_type=JSON_PATCH),
            lambda: api.call("PATCH", one, tested, content_type=JSON_PATCH),
            lambda: api.call("POST", CRDS, defined.encode()),
            lambda: api.call("GET", of_deep, accept="application/yaml"),
            lambda: api.call("GET", GADGETS, accept=TABLE),
            lambda: api.call("GET", "/openapi/v3/apis/example.com/v1"),
        ]
        return [below(150, ask) for ask in asked]

    def test_as_deep_as_allowed_is_taken(self, api: Cluster) -> None:
        statuses = [answer.status for answer in self.every_way(api, DEEPEST)]

        assert [201, *[200] * 6, 201, *[200] * 3] == statuses

    @pytest.mark.parametrize("levels", [DEEPEST + 1, 300, 950, 5000])
    def test_deeper_is_a_bad_request(self, api: Cluster, levels: int) -> None:
        answers = self.every_way(api, levels)[:8]

        assert {400} == {answer.status for answer in answers}
        assert {f"json: exceeded max depth of {DEEPEST}"} == {answer.message for answer in answers}

    def test_patches_that_stack_up_are_measured_together(self, api: Cluster) -> None:
        patch = [
            {"op": "add", "path": "/spec" + "/a" * (100 * step), "value": nested(101)}
            for step in range(1, 60)
        ]
        patch.insert(0, {"op": "add", "path": "/spec", "value": nested(101)})
        copied = [*patch, {"op": "copy", "from": "/spec", "path": "/status"}]

        answers = [
            api.call("PATCH", f"{GADGETS}/gadget", each, content_type=JSON_PATCH)
            for each in (patch, copied)
        ]

        assert [400, 400] == [answer.status for answer in answers]
        assert {f"json: exceeded max depth of {DEEPEST}"} == {answer.message for answer in answers}
        assert {} == api.get(gadget()).body["spec"]

    def test_continue_tokens_are_read_as_carefully(self, api: Cluster) -> None:
        import base64

        token = base64.urlsafe_b64encode(b"[" * 5000).decode()

        answer = api.call("GET", MAPS, **{"continue": token})

        assert 400 == answer.status


class TestSizes:
    def test_copies_that_double_are_refused_before_they_fill_the_memory(self, api: Cluster) -> None:
        patch = [{"op": "copy", "from": "", "path": f"/data/x{step}"} for step in range(30)]

        answer = api.call("PATCH", f"{MAPS}/settings", patch, content_type=JSON_PATCH)

        assert (422, UNFIT) == (answer.status, answer.message)
        assert {"a": "1"} == api.get(config_map()).body["data"]

    def test_copies_up_to_three_mebibytes_are_made(self, api: Cluster) -> None:
        quarter = 3 * 1024 * 1024 // 4
        api.create(config_map("large", a="x" * (quarter - 2)))  # and two quotation marks
        copies = [{"op": "copy", "from": "/data/a", "path": "/data/b"}] * 4

        within = api.call("PATCH", f"{MAPS}/large", copies[:4], content_type=JSON_PATCH)
        tiny = {"op": "copy", "from": "/metadata/name", "path": "/data/c"}
        beyond = api.call("PATCH", f"{MAPS}/large", [*copies, tiny], content_type=JSON_PATCH)

        # What four copies make is too much for a ConfigMap, but none of the patch's business
        assert (422, 422) == (within.status, beyond.status)
        assert within.message != UNFIT
        assert UNFIT == beyond.message

    def test_what_a_patch_copies_are_two_things_afterwards(self, api: Cluster) -> None:
        patch = [
            {"op": "add", "path": "/spec/a", "value": {"list": [1]}},
            {"op": "copy", "from": "/spec/a", "path": "/spec/b"},
            {"op": "add", "path": "/spec/a/list/-", "value": 2},
        ]

        answer = api.call("PATCH", f"{GADGETS}/gadget", patch, content_type=JSON_PATCH)

        assert {"a": {"list": [1, 2]}, "b": {"list": [1]}} == answer.body["spec"]

    def test_a_patch_of_ten_thousand_operations_on_a_large_object(self, api: Cluster) -> None:
        api.create(gadget("large", **{f"k{number}": number for number in range(20_000)}))
        patch = [{"op": "add", "path": "/spec/k0", "value": number} for number in range(10_000)]

        answer = api.call("PATCH", f"{GADGETS}/large", patch, content_type=JSON_PATCH)
        longer = api.call("PATCH", f"{GADGETS}/large", patch * 2, content_type=JSON_PATCH)

        assert (200, 9_999) == (answer.status, answer.body["spec"]["k0"])
        assert (413, "RequestEntityTooLarge") == (longer.status, longer.body["reason"])

    def test_an_object_is_as_large_as_etcd_takes_it(self, api: Cluster) -> None:
        largest = gadget("large", text="x" * (LARGEST_OBJECT - 2000))
        larger = gadget("larger", text="x" * LARGEST_OBJECT)

        taken = api.call("POST", GADGETS, largest)
        refused = api.call("POST", GADGETS, larger)

        assert 201 == taken.status
        assert (500, "etcdserver: request is too large") == (refused.status, refused.message)
        assert "reason" not in refused.body
        assert 404 == api.get(larger).status

    def test_an_update_that_makes_it_too_large_changes_nothing(self, api: Cluster) -> None:
        before = api.get(gadget()).body

        patch = {"spec": {"text": "x" * LARGEST_OBJECT}}
        answer = api.call("PATCH", f"{GADGETS}/gadget", patch, content_type=MERGE)

        assert (500, "etcdserver: request is too large") == (answer.status, answer.message)
        assert before == api.get(gadget()).body

    def test_managed_fields_give_way_before_the_object_does(self, api: Cluster) -> None:
        fields = {f"field-{number:06}": "" for number in range(LARGEST_OBJECT // 24)}

        answer = api.call("POST", GADGETS, gadget("wide", **fields))

        assert 201 == answer.status
        assert "managedFields" not in answer.body["metadata"]

    def test_warnings_fit_into_a_header(self, api: Cluster) -> None:
        body = {**config_map("odd"), **{f"unknown\r\n-{number}": 1 for number in range(1000)}}

        header = api.call("POST", MAPS, body).headers["Warning"]

        assert len(header) < 8000
        assert header.isprintable()
        assert 20 < header.count("299 - ")

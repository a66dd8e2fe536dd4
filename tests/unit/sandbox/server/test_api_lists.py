"""Listing: selectors, pages that belong together, and versions."""

from typing import Any

import pytest

from helpers.server import TABLE, Cluster, cluster, config_map, crd, deployment, manifest, pod

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


def labelled(name: str, **labels: str) -> dict[str, Any]:
    made = config_map(name)
    made["metadata"]["labels"] = labels
    return made


def names(body: Any) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


class TestShape:
    def test_a_list_says_what_it_is_and_how_new(self, api: Cluster) -> None:
        api.create(config_map("a"))

        answer = api.call("GET", MAPS)

        assert ("ConfigMapList", "v1", {"resourceVersion": "3"}) == (
            answer.body["kind"],
            answer.body["apiVersion"],
            answer.body["metadata"],
        )

    def test_items_of_own_kinds_do_not_repeat_what_they_are(self, api: Cluster) -> None:
        api.create(config_map("a"))

        assert {"metadata", "data"} >= set(api.call("GET", MAPS).body["items"][0])

    def test_items_of_custom_kinds_do(self, api: Cluster) -> None:
        api.create(crd())
        api.create(manifest("example.com/v1", "Gadget", "g"))

        items = api.call("GET", "/apis/example.com/v1/gadgets").body["items"]

        assert ("example.com/v1", "Gadget") == (items[0]["apiVersion"], items[0]["kind"])

    def test_all_namespaces_or_one(self, api: Cluster) -> None:
        api.create(manifest("v1", "Namespace", "other", namespace=None))
        api.create(config_map("a"))
        api.create(manifest("v1", "ConfigMap", "b", namespace="other"))

        assert ["a", "b"] == names(api.call("GET", "/api/v1/configmaps").body)
        assert ["a"] == names(api.call("GET", MAPS).body)

    def test_a_table_has_a_row_for_each(self, api: Cluster) -> None:
        api.create(pod("a"))
        api.create(pod("b"))

        answer = api.call("GET", PODS, accept=TABLE)

        assert "Table" == answer.body["kind"]
        assert ["a", "b"] == [row["cells"][0] for row in answer.body["rows"]]
        assert "PartialObjectMetadata" == answer.body["rows"][0]["object"]["kind"]


class TestSelectors:
    @pytest.mark.parametrize(
        ("selector", "found"),
        [
            pytest.param("", ["a", "b", "c"], id="everything"),
            pytest.param("tier=web", ["a"], id="a value"),
            pytest.param("tier==web", ["a"], id="a value, written twice"),
            pytest.param("tier!=web", ["b", "c"], id="another value or none"),
            pytest.param("tier in (web, db)", ["a", "b"], id="one of several"),
            pytest.param("tier notin (web,db)", ["c"], id="none of several"),
            pytest.param("tier", ["a", "b"], id="present"),
            pytest.param("!tier", ["c"], id="absent"),
            pytest.param("tier,size>3", ["b"], id="greater"),
            pytest.param("size<3", ["a"], id="less"),
            pytest.param("tier=web,size=9", [], id="both"),
            pytest.param("tier=", [], id="the empty value"),
        ],
    )
    def test_labels(self, api: Cluster, selector: str, found: list[str]) -> None:
        api.create(labelled("a", tier="web", size="1"))
        api.create(labelled("b", tier="db", size="5"))
        api.create(labelled("c"))

        assert found == names(api.call("GET", MAPS, labelSelector=selector).body)

    @pytest.mark.parametrize("selector", ["a in", "a in (", "a=b=c", ",", "a,", "=x", "a b", "a>x"])
    def test_what_is_no_label_selector_is_refused(self, api: Cluster, selector: str) -> None:
        answer = api.call("GET", MAPS, labelSelector=selector)

        assert (400, "BadRequest") == (answer.status, answer.body["reason"])

    @pytest.mark.parametrize(
        ("selector", "found"),
        [
            pytest.param("metadata.name=a", ["a"], id="a name"),
            pytest.param("metadata.name!=a", ["b"], id="any other name"),
            pytest.param("spec.nodeName=n1", ["b"], id="pods on a node"),
            pytest.param("spec.nodeName=", ["a"], id="pods without a node"),
            pytest.param("status.phase=Pending,spec.nodeName=n1", ["b"], id="two fields"),
            pytest.param("spec.hostNetwork=false", ["a", "b"], id="an absent truth"),
        ],
    )
    def test_fields(self, api: Cluster, selector: str, found: list[str]) -> None:
        api.create(pod("a"))
        api.create(pod("b", nodeName="n1"))

        assert found == names(api.call("GET", PODS, fieldSelector=selector).body)

    def test_fields_a_kind_cannot_be_selected_by_are_refused(self, api: Cluster) -> None:
        answer = api.call("GET", PODS, fieldSelector="spec.color=red")

        assert (400, "field label not supported: spec.color") == (answer.status, answer.message)

    def test_events_are_found_by_what_they_are_about(self, api: Cluster) -> None:
        about = {"kind": "Pod", "name": "web", "namespace": "default", "uid": "u1"}
        api.create(manifest("v1", "Event", "e1", involvedObject=about, reason="Started"))
        api.create(manifest("v1", "Event", "e2", involvedObject=about | {"uid": "u2"}))

        found = api.call("GET", "/api/v1/events", fieldSelector="involvedObject.uid=u1")

        assert ["e1"] == names(found.body)

    def test_custom_kinds_are_selected_by_the_fields_their_crd_names(self, api: Cluster) -> None:
        fields = {"color": {"type": "string"}}
        schema = {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": fields}},
        }
        api.create(crd(schema=schema, selectableFields=[{"jsonPath": ".spec.color"}]))
        api.create(manifest("example.com/v1", "Gadget", "a", spec={"color": "red"}))
        api.create(manifest("example.com/v1", "Gadget", "b", spec={"color": "blue"}))

        path = "/apis/example.com/v1/gadgets"
        assert ["b"] == names(api.call("GET", path, fieldSelector="spec.color=blue").body)


class TestPages:
    def test_pages_belong_to_one_moment(self, api: Cluster) -> None:
        for name in "abcde":
            api.create(config_map(name))

        first = api.call("GET", MAPS, limit="2")
        api.call("DELETE", f"{MAPS}/d")
        api.create(config_map("c2"))
        token = first.body["metadata"]["continue"]
        second = api.call("GET", MAPS, **{"limit": "2", "continue": token})
        third = api.call(
            "GET", MAPS, **{"limit": "2", "continue": second.body["metadata"]["continue"]}
        )

        assert [["a", "b"], ["c", "d"], ["e"]] == [
            names(page.body) for page in (first, second, third)
        ]
        assert {"7"} == {
            page.body["metadata"]["resourceVersion"] for page in (first, second, third)
        }
        assert 3 == first.body["metadata"]["remainingItemCount"]
        assert "continue" not in third.body["metadata"]

    def test_nobody_counts_the_rest_of_a_selection(self, api: Cluster) -> None:
        for name in "abc":
            api.create(labelled(name, x="y"))

        metadata = api.call("GET", MAPS, limit="1", labelSelector="x=y").body["metadata"]

        assert "continue" in metadata
        assert "remainingItemCount" not in metadata

    def test_pages_go_on_across_namespaces(self, api: Cluster) -> None:
        api.create(manifest("v1", "Namespace", "other", namespace=None))
        for name in "ab":
            api.create(config_map(name))
            api.create(manifest("v1", "ConfigMap", name, namespace="other"))

        seen, token = [], ""
        while True:
            query = {"limit": "1", "continue": token} if token else {"limit": "1"}
            body = api.call("GET", "/api/v1/configmaps", **query).body
            seen += [(i["metadata"]["namespace"], i["metadata"]["name"]) for i in body["items"]]
            token = body["metadata"].get("continue", "")
            if not token:
                break

        assert [("default", "a"), ("default", "b"), ("other", "a"), ("other", "b")] == seen

    def test_a_page_that_waited_too_long_offers_a_way_on(self) -> None:
        api = cluster(history=2)
        for name in "abc":
            api.create(config_map(name))
        token = api.call("GET", MAPS, limit="1").body["metadata"]["continue"]
        for number in range(10):
            api.create(config_map(f"x{number}"))

        late = api.call("GET", MAPS, **{"limit": "1", "continue": token})
        assert (410, "Expired") == (late.status, late.body["reason"])
        assert "The provided continue parameter is too old" in late.message
        onward = api.call("GET", MAPS, **{"continue": late.body["metadata"]["continue"]})

        assert ["b", "c", "x0"] == names(onward.body)[:3]

    @pytest.mark.parametrize("token", ["x", "!!!", "e30", "bnVsbA"])
    def test_a_token_nobody_gave_out_is_refused(self, api: Cluster, token: str) -> None:
        answer = api.call("GET", MAPS, **{"continue": token})

        assert 400 == answer.status
        assert "invalid continue token: continue key is not valid" == answer.message


class TestVersions:
    def test_exactly_a_version(self, api: Cluster) -> None:
        api.create(config_map("a"))
        then = api.call("GET", MAPS).body["metadata"]["resourceVersion"]
        api.create(config_map("b"))

        answer = api.call("GET", MAPS, resourceVersion=then, resourceVersionMatch="Exact")

        assert ["a"] == names(answer.body)
        assert then == answer.body["metadata"]["resourceVersion"]

    def test_no_older_than_a_version(self, api: Cluster) -> None:
        api.create(config_map("a"))
        then = api.call("GET", MAPS).body["metadata"]["resourceVersion"]
        api.create(config_map("b"))

        answer = api.call("GET", MAPS, resourceVersion=then, resourceVersionMatch="NotOlderThan")

        assert ["a", "b"] == names(answer.body)

    @pytest.mark.parametrize("version", ["", "0"])
    def test_any_version(self, api: Cluster, version: str) -> None:
        api.create(config_map("a"))

        assert ["a"] == names(api.call("GET", MAPS, resourceVersion=version).body)

    def test_a_version_of_the_future(self, api: Cluster) -> None:
        answer = api.call("GET", MAPS, resourceVersion="999")

        assert (504, "Timeout") == (answer.status, answer.body["reason"])
        assert "Timeout: Too large resource version: 999, current: 2" == answer.message
        assert "1" == answer.headers["Retry-After"]

    def test_a_version_the_history_has_lost(self) -> None:
        api = cluster(history=2)
        for number in range(10):
            api.create(config_map(f"x{number}"))

        answer = api.call("GET", MAPS, resourceVersion="3", resourceVersionMatch="Exact")

        assert (410, "Expired") == (answer.status, answer.body["reason"])

    @pytest.mark.parametrize(
        ("query", "problem"),
        [
            pytest.param(
                {"resourceVersionMatch": "Exact"},
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
                id="a match without a version",
            ),
            pytest.param(
                {"resourceVersionMatch": "Roughly", "resourceVersion": "1"},
                'Unsupported value: "Roughly"',
                id="another match",
            ),
            pytest.param(
                {"sendInitialEvents": "true"},
                "sendInitialEvents is forbidden for list",
                id="initial events without a watch",
            ),
        ],
    )
    def test_wishes_that_contradict_themselves(
        self, api: Cluster, query: dict[str, str], problem: str
    ) -> None:
        answer = api.call("GET", MAPS, **query)

        assert (422, "Invalid") == (answer.status, answer.body["reason"])
        assert problem in answer.message

    @pytest.mark.parametrize("version", ["x", "-1", "1.5", "٣"])
    def test_what_is_no_version(self, api: Cluster, version: str) -> None:
        assert 400 == api.call("GET", MAPS, resourceVersion=version).status


class TestDeleteCollection:
    def test_everything_selected_goes(self, api: Cluster) -> None:
        for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
            api.create(labelled(name, color=color))

        answer = api.call("DELETE", MAPS, labelSelector="color=red")

        assert 200 == answer.status
        assert ["a", "c"] == names(answer.body)
        assert ["b"] == names(api.call("GET", MAPS).body)

    def test_a_dry_run_keeps_everything(self, api: Cluster) -> None:
        api.create(config_map("a"))

        assert 200 == api.call("DELETE", MAPS, dryRun="All").status
        assert ["a"] == names(api.call("GET", MAPS).body)


class TestOtherVersions:
    def test_an_autoscaler_in_both_of_its_versions(self, api: Cluster) -> None:
        api.create(deployment())
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        old = manifest(
            "autoscaling/v1",
            "HorizontalPodAutoscaler",
            "web",
            spec={"scaleTargetRef": target, "maxReplicas": 5, "targetCPUUtilizationPercentage": 70},
        )

        created = api.create(old)
        new = api.get(old | {"apiVersion": "autoscaling/v2"}).body

        assert 70 == created["spec"]["targetCPUUtilizationPercentage"]
        metric = new["spec"]["metrics"][0]["resource"]
        assert ("cpu", 70) == (metric["name"], metric["target"]["averageUtilization"])

    def test_an_event_in_both_of_its_groups(self, api: Cluster) -> None:
        new = manifest(
            "events.k8s.io/v1",
            "Event",
            "e",
            regarding={"kind": "Pod", "name": "web", "namespace": "default"},
            note="it runs",
            reportingController="k/1",
            action="Running",
            reason="Started",
            type="Normal",
            eventTime="2030-01-01T00:00:00.000000Z",
        )
        api.create(new)

        core = api.call("GET", "/api/v1/namespaces/default/events/e").body
        listed = api.call("GET", "/apis/events.k8s.io/v1/events").body

        assert ("it runs", "web") == (core["message"], core["involvedObject"]["name"])
        assert ["it runs"] == [item["note"] for item in listed["items"]]

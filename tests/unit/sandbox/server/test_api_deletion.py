"""Deletion: at once, gracefully, behind finalizers, and what becomes of dependents."""

from typing import Any

import pytest

from helpers.server import MERGE, Cluster, config_map, deployment, manifest, pod

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def held(name: str = "settings", *finalizers: str) -> dict[str, Any]:
    made = config_map(name)
    made["metadata"]["finalizers"] = list(finalizers or ("example.com/hold",))
    return made


def running(api: Cluster, **spec: Any) -> None:
    created = api.create(pod(nodeName="n1", **spec))
    api.call("PUT", f"{PODS}/web/status", created | {"status": {"phase": "Running"}})


class TestAtOnce:
    def test_an_object_is_gone_and_the_answer_says_which(self, api: Cluster) -> None:
        created = api.create(deployment())

        answer = api.call("DELETE", f"{DEPLOYMENTS}/web")

        assert 200 == answer.status
        assert {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {
                "name": "web",
                "group": "apps",
                "kind": "deployments",
                "uid": created["metadata"]["uid"],
            },
        } == answer.body
        assert 404 == api.get(deployment()).status

    def test_some_kinds_answer_with_the_object(self, api: Cluster) -> None:
        api.create(pod())

        answer = api.call("DELETE", f"{PODS}/web")

        assert ("Pod", "web") == (answer.body["kind"], answer.body["metadata"]["name"])

    def test_a_dry_run_keeps_it(self, api: Cluster) -> None:
        api.create(config_map())

        assert 200 == api.call("DELETE", f"{MAPS}/settings", dryRun="All").status
        assert 200 == api.get(config_map()).status

    def test_what_is_not_there(self, api: Cluster) -> None:
        assert 404 == api.call("DELETE", f"{MAPS}/settings").status


class TestConditions:
    def test_another_identity_is_refused(self, api: Cluster) -> None:
        api.create(config_map())

        answer = api.call("DELETE", f"{MAPS}/settings", {"preconditions": {"uid": "other"}})

        assert (409, "Conflict") == (answer.status, answer.body["reason"])
        assert "the UID in the precondition (other) does not match the UID in record" in (
            answer.message
        )

    def test_another_version_is_refused(self, api: Cluster) -> None:
        api.create(config_map())
        body = {"preconditions": {"resourceVersion": "1"}}

        assert 409 == api.call("DELETE", f"{MAPS}/settings", body).status

    def test_the_right_ones_pass(self, api: Cluster) -> None:
        metadata = api.create(config_map())["metadata"]
        body = {
            "preconditions": {
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            }
        }

        assert 200 == api.call("DELETE", f"{MAPS}/settings", body).status

    @pytest.mark.parametrize(
        ("body", "problem"),
        [
            pytest.param({"propagationPolicy": "Sideways"}, "propagationPolicy", id="policy"),
            pytest.param({"dryRun": ["Some"]}, "dryRun", id="dry run"),
            pytest.param(
                {"propagationPolicy": "Orphan", "orphanDependents": True},
                "orphanDependents and deletionPropagation cannot be both set",
                id="two wishes",
            ),
        ],
    )
    def test_options_that_make_no_sense(
        self, api: Cluster, body: dict[str, Any], problem: str
    ) -> None:
        api.create(config_map())

        answer = api.call("DELETE", f"{MAPS}/settings", body)

        assert 422 == answer.status
        assert problem in answer.message


class TestFinalizers:
    def test_an_object_waits_for_its_finalizers(self, api: Cluster) -> None:
        api.create(held())

        answer = api.call("DELETE", f"{MAPS}/settings")

        metadata = answer.body["metadata"]
        assert ("2030-01-01T00:00:00Z", 0) == (
            metadata["deletionTimestamp"],
            metadata["deletionGracePeriodSeconds"],
        )
        assert 200 == api.get(config_map()).status

    def test_it_goes_with_the_last_of_them(self, api: Cluster) -> None:
        api.create(held("settings", "example.com/a", "example.com/b"))
        api.call("DELETE", f"{MAPS}/settings")

        def left(*names: str) -> int:
            patch = {"metadata": {"finalizers": list(names)}}
            return api.call("PATCH", f"{MAPS}/settings", patch, content_type=MERGE).status

        assert (200, 200) == (left("example.com/b"), api.get(config_map()).status)
        assert (200, 404) == (left(), api.get(config_map()).status)

    def test_deleting_again_changes_nothing(self, api: Cluster) -> None:
        api.create(held())
        first = api.call("DELETE", f"{MAPS}/settings")
        api.clock.move(60)

        assert first.body == api.call("DELETE", f"{MAPS}/settings").body

    def test_no_finalizer_is_added_to_what_is_being_deleted(self, api: Cluster) -> None:
        api.create(held())
        api.call("DELETE", f"{MAPS}/settings")
        patch = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}

        answer = api.call("PATCH", f"{MAPS}/settings", patch, content_type=MERGE)

        assert 422 == answer.status
        assert (
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being"
            ' deleted, found new finalizers []string{"example.com/more"}' in answer.message
        )

    def test_a_deletion_cannot_be_taken_back(self, api: Cluster) -> None:
        api.create(held())
        deleted = api.call("DELETE", f"{MAPS}/settings").body
        del deleted["metadata"]["deletionTimestamp"]

        answer = api.call("PUT", f"{MAPS}/settings", deleted | {"data": {"a": "1"}})

        assert "2030-01-01T00:00:00Z" == answer.body["metadata"]["deletionTimestamp"]

    def test_the_generation_counts_the_deletion(self, api: Cluster) -> None:
        made = deployment()
        made["metadata"]["finalizers"] = ["example.com/hold"]
        api.create(made)

        assert 2 == api.call("DELETE", f"{DEPLOYMENTS}/web").body["metadata"]["generation"]


class TestPropagation:
    @pytest.mark.parametrize(
        ("policy", "finalizer"),
        [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")],
    )
    def test_what_becomes_of_dependents_is_a_finalizer(
        self, api: Cluster, policy: str, finalizer: str
    ) -> None:
        api.create(deployment())

        answer = api.call("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": policy})

        assert [finalizer] == answer.body["metadata"]["finalizers"]
        assert 200 == api.get(deployment()).status

    def test_in_the_background_the_object_goes_at_once(self, api: Cluster) -> None:
        api.create(deployment())

        api.call("DELETE", f"{DEPLOYMENTS}/web", propagationPolicy="Background")

        assert 404 == api.get(deployment()).status

    def test_the_last_wish_counts(self, api: Cluster) -> None:
        made = deployment()
        made["metadata"]["finalizers"] = ["example.com/hold"]
        api.create(made)
        api.call("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": "Foreground"})

        answer = api.call("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": "Background"})

        assert ["example.com/hold"] == answer.body["metadata"]["finalizers"]

    def test_jobs_leave_their_pods_unless_told_otherwise(self, api: Cluster) -> None:
        template = {"spec": {"containers": [{"name": "a", "image": "b"}], "restartPolicy": "Never"}}
        job = manifest("batch/v1", "Job", "once", spec={"template": template})
        api.create(job)

        answer = api.call("DELETE", api.path_of(job))

        assert ["orphan"] == answer.body["metadata"]["finalizers"]


class TestPods:
    def test_a_running_pod_is_given_its_grace_period(self, api: Cluster) -> None:
        running(api, terminationGracePeriodSeconds=45)

        metadata = api.call("DELETE", f"{PODS}/web").body["metadata"]

        assert ("2030-01-01T00:00:45Z", 45) == (
            metadata["deletionTimestamp"],
            metadata["deletionGracePeriodSeconds"],
        )
        assert 200 == api.get(pod()).status

    def test_the_client_may_choose_another(self, api: Cluster) -> None:
        running(api)

        metadata = api.call("DELETE", f"{PODS}/web", gracePeriodSeconds="5").body["metadata"]

        assert 5 == metadata["deletionGracePeriodSeconds"]

    def test_a_longer_wait_changes_nothing_and_a_shorter_one_does(self, api: Cluster) -> None:
        running(api)
        first = api.call("DELETE", f"{PODS}/web")

        longer = api.call("DELETE", f"{PODS}/web", gracePeriodSeconds="90")
        shorter = api.call("DELETE", f"{PODS}/web", gracePeriodSeconds="10")

        assert first.body == longer.body
        assert "2030-01-01T00:00:10Z" == shorter.body["metadata"]["deletionTimestamp"]

    def test_no_wait_at_all_ends_it(self, api: Cluster) -> None:
        running(api)
        api.call("DELETE", f"{PODS}/web")

        api.call("DELETE", f"{PODS}/web", gracePeriodSeconds="0")

        assert 404 == api.get(pod()).status

    def test_a_wait_that_has_passed_leaves_a_second(self, api: Cluster) -> None:
        running(api)
        api.call("DELETE", f"{PODS}/web")
        api.clock.move(20)

        metadata = api.call("DELETE", f"{PODS}/web", gracePeriodSeconds="10").body["metadata"]

        assert ("2030-01-01T00:00:20Z", 1) == (
            metadata["deletionTimestamp"],
            metadata["deletionGracePeriodSeconds"],
        )

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_a_finished_pod_goes_at_once(self, api: Cluster, phase: str) -> None:
        created = api.create(pod(nodeName="n1"))
        api.call("PUT", f"{PODS}/web/status", created | {"status": {"phase": phase}})

        api.call("DELETE", f"{PODS}/web")

        assert 404 == api.get(pod()).status

    def test_a_pod_without_a_node_goes_at_once(self, api: Cluster) -> None:
        api.create(pod())

        api.call("DELETE", f"{PODS}/web")

        assert 404 == api.get(pod()).status

    def test_a_pod_in_its_grace_period_outlives_its_last_finalizer(self, api: Cluster) -> None:
        made = pod(nodeName="n1")
        made["metadata"]["finalizers"] = ["example.com/hold"]
        api.create(made)
        api.call("DELETE", f"{PODS}/web")

        api.call("PATCH", f"{PODS}/web", {"metadata": {"finalizers": []}}, content_type=MERGE)

        assert 200 == api.get(pod()).status

    def test_a_pod_with_a_finalizer_outlives_its_grace_period(self, api: Cluster) -> None:
        made = pod(nodeName="n1")
        made["metadata"]["finalizers"] = ["example.com/hold"]
        api.create(made)
        api.call("DELETE", f"{PODS}/web")

        api.call("DELETE", f"{PODS}/web", gracePeriodSeconds="0")
        assert 0 == api.get(pod()).body["metadata"]["deletionGracePeriodSeconds"]
        api.call("PATCH", f"{PODS}/web", {"metadata": {"finalizers": []}}, content_type=MERGE)

        assert 404 == api.get(pod()).status


class TestNamespaces:
    NAME = "/api/v1/namespaces/team"

    @pytest.fixture
    def team(self, api: Cluster) -> dict[str, Any]:
        return api.create(manifest("v1", "Namespace", "team", namespace=None))

    def test_a_namespace_waits_until_it_is_finalized(
        self, api: Cluster, team: dict[str, Any]
    ) -> None:
        assert {"finalizers": ["kubernetes"]} == team["spec"]

        deleted = api.call("DELETE", self.NAME).body
        assert "Terminating" == deleted["status"]["phase"]
        finalized = api.call("PUT", f"{self.NAME}/finalize", deleted | {"spec": {"finalizers": []}})

        assert 200 == finalized.status
        assert 404 == api.call("GET", self.NAME).status

    def test_its_finalizers_cannot_be_changed_elsewhere(
        self, api: Cluster, team: dict[str, Any]
    ) -> None:
        answer = api.call("PUT", self.NAME, team | {"spec": {}})

        assert ["kubernetes"] == answer.body["spec"]["finalizers"]

    @pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
    def test_some_stay_for_ever(self, api: Cluster, name: str) -> None:
        answer = api.call("DELETE", f"/api/v1/namespaces/{name}")

        assert 403 == answer.status
        assert f'namespaces "{name}" is forbidden: this namespace may not be deleted' == (
            answer.message
        )

"""Creating, reading, updating and patching objects, as an API server does."""

from typing import Any

import pytest

from helpers.server import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Cluster,
    config_map,
    deployment,
    manifest,
    pod,
)

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


class TestCreate:
    def test_the_server_fills_in_who_an_object_is(self, api: Cluster) -> None:
        answer = api.call("POST", MAPS, config_map(a="1"))

        metadata = answer.body["metadata"]
        assert 201 == answer.status
        assert ("settings", "default", "2030-01-01T00:00:00Z", "3") == (
            metadata["name"],
            metadata["namespace"],
            metadata["creationTimestamp"],
            metadata["resourceVersion"],
        )
        assert 36 == len(metadata["uid"])

    def test_the_namespace_of_the_path_is_taken(self, api: Cluster) -> None:
        answer = api.call("POST", MAPS, manifest("v1", "ConfigMap", "a", namespace=None))

        assert "default" == answer.body["metadata"]["namespace"]

    def test_kind_and_version_may_be_left_out(self, api: Cluster) -> None:
        answer = api.call("POST", MAPS, {"metadata": {"name": "a"}})

        assert ("ConfigMap", "v1") == (answer.body["kind"], answer.body["apiVersion"])

    def test_a_name_is_generated(self, api: Cluster) -> None:
        body = {"metadata": {"generateName": "x" * 70}}

        names = {api.call("POST", MAPS, body).body["metadata"]["name"] for _ in range(5)}

        assert 5 == len(names)
        assert {63} == {len(name) for name in names}

    def test_what_only_the_server_writes_is_ignored(self, api: Cluster) -> None:
        body = config_map()
        body["metadata"] |= {
            "uid": "mine",
            "generation": 9,
            "deletionTimestamp": "2020-01-01T00:00:00Z",
        }

        metadata = api.create(body)["metadata"]

        assert "mine" != metadata["uid"]
        assert not {"generation", "deletionTimestamp"} & set(metadata)

    def test_a_taken_name_is_a_conflict(self, api: Cluster) -> None:
        api.create(deployment())

        answer = api.call("POST", DEPLOYMENTS, deployment())

        assert (409, "AlreadyExists") == (answer.status, answer.body["reason"])
        assert 'deployments.apps "web" already exists' == answer.message
        assert {"name": "web", "group": "apps", "kind": "deployments"} == answer.body["details"]

    def test_a_dry_run_stores_nothing(self, api: Cluster) -> None:
        answer = api.call("POST", MAPS, config_map(), dryRun="All")

        assert 201 == answer.status
        assert 404 == api.get(config_map()).status

    def test_a_dry_run_finds_a_taken_name_too(self, api: Cluster) -> None:
        api.create(config_map())

        assert 409 == api.call("POST", MAPS, config_map(), dryRun="All").status

    def test_a_namespace_must_exist(self, api: Cluster) -> None:
        answer = api.call(
            "POST", "/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "a"}}
        )

        assert 404 == answer.status
        assert 'namespaces "nowhere" not found' == answer.message

    def test_a_namespace_on_its_way_out_takes_nothing_new(self, api: Cluster) -> None:
        api.create(manifest("v1", "Namespace", "leaving", namespace=None))
        api.call("DELETE", "/api/v1/namespaces/leaving")

        answer = api.call(
            "POST", "/api/v1/namespaces/leaving/configmaps", {"metadata": {"name": "a"}}
        )

        assert 403 == answer.status
        assert (
            'configmaps "a" is forbidden: unable to create new content in namespace leaving'
            " because it is being terminated" == answer.message
        )
        assert "NamespaceTerminating" == answer.body["details"]["causes"][0]["reason"]

    def test_a_version_cannot_be_chosen(self, api: Cluster) -> None:
        body = config_map()
        body["metadata"]["resourceVersion"] = "1"

        answer = api.call("POST", MAPS, body)

        assert 500 == answer.status
        assert "resourceVersion should not be set on objects to be created" == answer.message

    @pytest.mark.parametrize(
        ("path", "body", "message"),
        [
            pytest.param(
                MAPS,
                {"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
                'ConfigMap in version "v1" cannot be handled as a ConfigMap: no kind "ConfigMap" is'
                ' registered for version "apps/v1" in scheme "pkg/runtime/scheme.go:111"',
                id="another version than the path",
            ),
            pytest.param(
                MAPS,
                config_map() | {"metadata": {"name": "a", "namespace": "other"}},
                "the namespace of the provided object does not match the namespace sent on the"
                " request",
                id="another namespace than the path",
            ),
            pytest.param(
                DEPLOYMENTS,
                deployment(replicas="three"),
                'Deployment in version "v1" cannot be handled as a Deployment: json: cannot'
                " unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
                id="text where a number belongs",
            ),
        ],
    )
    def test_bodies_that_make_no_sense_are_refused(
        self, api: Cluster, path: str, body: Any, message: str
    ) -> None:
        answer = api.call("POST", path, body)

        assert (400, "BadRequest") == (answer.status, answer.body["reason"])
        assert message == answer.message


class TestFieldValidation:
    BODY = config_map() | {"dta": {"a": "1"}}

    def test_strict_refuses_unknown_fields(self, api: Cluster) -> None:
        answer = api.call("POST", MAPS, self.BODY, fieldValidation="Strict")

        assert 400 == answer.status
        assert (
            'ConfigMap in version "v1" cannot be handled as a ConfigMap:'
            ' strict decoding error: unknown field "dta"' == answer.message
        )

    def test_warn_reports_and_drops_them(self, api: Cluster) -> None:
        answer = api.call("POST", MAPS, self.BODY, fieldValidation="Warn")

        assert 201 == answer.status
        assert '299 - "unknown field \\"dta\\""' == answer.headers["Warning"]
        assert "dta" not in answer.body

    def test_ignore_drops_them_silently(self, api: Cluster) -> None:
        answer = api.call("POST", MAPS, self.BODY, fieldValidation="Ignore")

        assert 201 == answer.status
        assert "Warning" not in answer.headers
        assert "dta" not in answer.body

    def test_a_field_given_twice_is_reported(self, api: Cluster) -> None:
        body = b'{"metadata":{"name":"a"},"data":{"x":"1","x":"2"}}'

        answer = api.call("POST", MAPS, body, fieldValidation="Strict")

        assert 'duplicate field "data.x"' in answer.message

    def test_another_word_is_refused(self, api: Cluster) -> None:
        answer = api.call("POST", MAPS, config_map(), fieldValidation="Loud")

        assert 422 == answer.status
        assert 'Unsupported value: "Loud"' in answer.message


class TestUpdate:
    def test_an_update_replaces_the_object(self, api: Cluster) -> None:
        created = api.create(config_map(a="1"))

        answer = api.call("PUT", f"{MAPS}/settings", created | {"data": {"b": "2"}})

        assert 200 == answer.status
        assert {"b": "2"} == answer.body["data"]
        assert int(created["metadata"]["resourceVersion"]) < int(
            answer.body["metadata"]["resourceVersion"]
        )

    def test_an_update_without_a_change_makes_no_version(self, api: Cluster) -> None:
        created = api.create(config_map(a="1"))
        api.clock.move(60)

        answer = api.call("PUT", f"{MAPS}/settings", created)

        assert created == answer.body

    def test_an_outdated_version_is_a_conflict(self, api: Cluster) -> None:
        created = api.create(config_map(a="1"))
        api.call("PUT", f"{MAPS}/settings", created | {"data": {"a": "2"}})

        answer = api.call("PUT", f"{MAPS}/settings", created | {"data": {"a": "3"}})

        assert (409, "Conflict") == (answer.status, answer.body["reason"])
        assert (
            'Operation cannot be fulfilled on configmaps "settings": the object has been modified;'
            " please apply your changes to the latest version and try again" == answer.message
        )

    def test_no_version_means_whatever_is_there(self, api: Cluster) -> None:
        api.create(config_map(a="1"))

        assert 200 == api.call("PUT", f"{MAPS}/settings", config_map(a="2")).status

    def test_some_kinds_insist_on_a_version(self, api: Cluster) -> None:
        lease = manifest("coordination.k8s.io/v1", "Lease", "l", spec={"holderIdentity": "a"})
        api.create(lease)

        answer = api.call("PUT", api.path_of(lease), lease)

        assert 422 == answer.status
        assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in (
            answer.message
        )

    def test_another_identity_is_a_conflict(self, api: Cluster) -> None:
        created = api.create(config_map())
        changed = created | {"metadata": created["metadata"] | {"uid": "other"}}

        answer = api.call("PUT", f"{MAPS}/settings", changed)

        assert 409 == answer.status
        assert "Precondition failed: UID in precondition: other" in answer.message

    def test_what_is_not_there_is_not_created(self, api: Cluster) -> None:
        answer = api.call("PUT", f"{MAPS}/settings", config_map())

        assert (404, 'configmaps "settings" not found') == (answer.status, answer.message)

    def test_leases_are_created_by_updates(self, api: Cluster) -> None:
        lease = manifest("coordination.k8s.io/v1", "Lease", "l", spec={"holderIdentity": "a"})

        assert 201 == api.call("PUT", api.path_of(lease), lease).status

    def test_the_name_in_the_body_must_be_that_of_the_path(self, api: Cluster) -> None:
        api.create(config_map())

        answer = api.call("PUT", f"{MAPS}/settings", config_map("other"))

        assert 400 == answer.status
        assert (
            "the name of the object (other) does not match the name on the URL (settings)"
            == answer.message
        )

    def test_only_a_changed_specification_counts_as_a_generation(self, api: Cluster) -> None:
        created = api.create(deployment())
        path = f"{DEPLOYMENTS}/web"

        labelled = api.call("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
        scaled = api.call("PATCH", path, {"spec": {"replicas": 4}}, content_type=MERGE)

        generations = [o["metadata"]["generation"] for o in (created, labelled.body, scaled.body)]
        assert [1, 1, 2] == generations

    def test_a_write_of_the_whole_leaves_the_status_alone(self, api: Cluster) -> None:
        created = api.create(deployment())

        answer = api.call(
            "PUT", f"{DEPLOYMENTS}/web", created | {"status": {"observedGeneration": 7}}
        )

        assert {} == answer.body["status"]

    def test_a_write_of_the_status_leaves_everything_else_alone(self, api: Cluster) -> None:
        created = api.create(deployment())
        changed = created | {
            "spec": created["spec"] | {"replicas": 9},
            "status": {"observedGeneration": 1, "replicas": 2},
        }

        answer = api.call("PUT", f"{DEPLOYMENTS}/web/status", changed)

        assert 200 == answer.status
        assert {"observedGeneration": 1, "replicas": 2} == answer.body["status"]
        assert created["spec"] == answer.body["spec"]
        assert 1 == answer.body["metadata"]["generation"]

    def test_a_dry_run_changes_nothing(self, api: Cluster) -> None:
        created = api.create(config_map(a="1"))

        answer = api.call("PUT", f"{MAPS}/settings", created | {"data": {"a": "2"}}, dryRun="All")

        assert {"a": "2"} == answer.body["data"]
        assert created == api.get(config_map()).body


class TestPatch:
    @pytest.mark.parametrize(
        ("content_type", "patch"),
        [
            pytest.param(MERGE, {"data": {"a": None, "b": "2"}}, id="merge patch"),
            pytest.param(STRATEGIC, {"data": {"a": None, "b": "2"}}, id="strategic merge patch"),
            pytest.param(
                JSON_PATCH,
                [
                    {"op": "remove", "path": "/data/a"},
                    {"op": "add", "path": "/data/b", "value": "2"},
                ],
                id="JSON patch",
            ),
        ],
    )
    def test_three_kinds_of_patches(self, api: Cluster, content_type: str, patch: Any) -> None:
        api.create(config_map(a="1"))

        answer = api.call("PATCH", f"{MAPS}/settings", patch, content_type=content_type)

        assert 200 == answer.status
        assert {"b": "2"} == answer.body["data"]

    def test_lists_merge_by_their_keys_in_a_strategic_patch(self, api: Cluster) -> None:
        api.create(deployment())
        patch = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "b:1"}]}}}}

        answer = api.call("PATCH", f"{DEPLOYMENTS}/web", patch, content_type=STRATEGIC)

        containers = answer.body["spec"]["template"]["spec"]["containers"]
        assert {"main", "side"} == {container["name"] for container in containers}

    def test_a_version_in_a_patch_is_a_condition(self, api: Cluster) -> None:
        api.create(config_map())
        patch = {"metadata": {"resourceVersion": "1"}}

        assert 409 == api.call("PATCH", f"{MAPS}/settings", patch, content_type=MERGE).status

    def test_what_is_not_there_cannot_be_patched(self, api: Cluster) -> None:
        assert 404 == api.call("PATCH", f"{MAPS}/settings", {}, content_type=MERGE).status

    def test_an_unknown_kind_of_patch_is_refused(self, api: Cluster) -> None:
        api.create(config_map())

        answer = api.call("PATCH", f"{MAPS}/settings", {}, content_type="application/json")

        assert (415, "UnsupportedMediaType") == (answer.status, answer.body["reason"])

    def test_a_patch_cannot_rename(self, api: Cluster) -> None:
        api.create(config_map())
        patch = {"metadata": {"name": "other"}}

        assert 400 == api.call("PATCH", f"{MAPS}/settings", patch, content_type=MERGE).status

    def test_a_patch_of_the_wrong_type_is_refused(self, api: Cluster) -> None:
        api.create(deployment())
        patch = {"spec": {"replicas": "many"}}

        answer = api.call("PATCH", f"{DEPLOYMENTS}/web", patch, content_type=MERGE)

        assert 422 == answer.status


class TestApply:
    def test_apply_creates_and_then_changes(self, api: Cluster) -> None:
        body = config_map(a="1")
        path = f"{MAPS}/settings"

        first = api.call("PATCH", path, body, content_type=APPLY, fieldManager="me")
        again = api.call("PATCH", path, body, content_type=APPLY, fieldManager="me")
        second = api.call("PATCH", path, config_map(b="2"), content_type=APPLY, fieldManager="me")

        assert [201, 200, 200] == [first.status, again.status, second.status]
        assert first.body == again.body
        assert {"b": "2"} == second.body["data"]

    def test_a_field_of_somebody_else_is_a_conflict(self, api: Cluster) -> None:
        path = f"{MAPS}/settings"
        api.call("PATCH", path, config_map(a="1"), content_type=APPLY, fieldManager="first")

        answer = api.call(
            "PATCH", path, config_map(a="2"), content_type=APPLY, fieldManager="second"
        )
        forced = api.call(
            "PATCH",
            path,
            config_map(a="2"),
            content_type=APPLY,
            fieldManager="second",
            force="true",
        )

        assert (409, "Conflict") == (answer.status, answer.body["reason"])
        assert ("FieldManagerConflict", ".data.a") == answer.causes[0][:2]
        assert {"a": "2"} == forced.body["data"]

    def test_apply_wants_to_know_who_applies(self, api: Cluster) -> None:
        answer = api.call("PATCH", f"{MAPS}/settings", config_map(), content_type=APPLY)

        assert 422 == answer.status
        assert "fieldManager: Required value: is required for apply patch" in answer.message

    def test_apply_takes_yaml(self, api: Cluster) -> None:
        text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata: {a: '1'}\n"

        answer = api.call("PATCH", f"{MAPS}/settings", text, content_type=APPLY, fieldManager="me")

        assert (201, {"a": "1"}) == (answer.status, answer.body["data"])

    def test_writers_are_remembered_by_their_program(self, api: Cluster) -> None:
        answer = api.call("POST", MAPS, config_map(a="1"), agent="kubectl/v1.32 (linux)")

        entry = answer.body["metadata"]["managedFields"][0]
        assert ("kubectl", "Update", "2030-01-01T00:00:00Z") == (
            entry["manager"],
            entry["operation"],
            entry["time"],
        )


class TestRead:
    def test_one_object(self, api: Cluster) -> None:
        created = api.create(pod())

        assert created == api.call("GET", f"{PODS}/web").body

    def test_what_is_not_there(self, api: Cluster) -> None:
        answer = api.call("GET", f"{DEPLOYMENTS}/web")

        assert {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": 'deployments.apps "web" not found',
            "reason": "NotFound",
            "details": {"name": "web", "group": "apps", "kind": "deployments"},
            "code": 404,
        } == answer.body

    def test_metadata_alone(self, api: Cluster) -> None:
        created = api.create(pod())
        accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

        answer = api.call("GET", f"{PODS}/web", accept=accept)

        assert {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": created["metadata"],
        } == answer.body

    def test_yaml(self, api: Cluster) -> None:
        api.create(config_map(a="1"))

        answer = api.call("GET", f"{MAPS}/settings", accept="application/yaml")

        assert b"kind: ConfigMap" in answer.body

"""Parts of objects with paths of their own: scale, binding, eviction, tokens, and questions."""

from typing import Any

import pytest

from helpers.server import MERGE, Cluster, cluster, config_map, crd, deployment, manifest, pod

PODS = "/api/v1/namespaces/default/pods"
WEB = "/apis/apps/v1/namespaces/default/deployments/web"


@pytest.fixture
def api() -> Cluster:
    return cluster()


class TestScale:
    def test_a_scale_shows_the_numbers_and_the_selector(self, api: Cluster) -> None:
        created = api.create(deployment(replicas=3))

        scale = api.call("GET", f"{WEB}/scale").body

        assert ("Scale", "autoscaling/v1") == (scale["kind"], scale["apiVersion"])
        assert {"replicas": 3} == scale["spec"]
        assert {"replicas": 0, "selector": "app=web"} == scale["status"]
        assert created["metadata"]["uid"] == scale["metadata"]["uid"]

    def test_a_scale_is_replaced(self, api: Cluster) -> None:
        api.create(deployment())
        scale = api.call("GET", f"{WEB}/scale").body

        answer = api.call("PUT", f"{WEB}/scale", scale | {"spec": {"replicas": 7}})

        assert {"replicas": 7} == answer.body["spec"]
        assert (7, 2) == (
            api.get(deployment()).body["spec"]["replicas"],
            api.get(deployment()).body["metadata"]["generation"],
        )

    def test_a_scale_is_patched(self, api: Cluster) -> None:
        api.create(deployment())

        answer = api.call("PATCH", f"{WEB}/scale", {"spec": {"replicas": 0}}, content_type=MERGE)

        assert {} == answer.body["spec"]
        assert 0 == api.get(deployment()).body["spec"]["replicas"]

    def test_an_outdated_scale_is_a_conflict(self, api: Cluster) -> None:
        api.create(deployment())
        scale = api.call("GET", f"{WEB}/scale").body
        api.call("PUT", f"{WEB}/scale", scale | {"spec": {"replicas": 7}})

        assert 409 == api.call("PUT", f"{WEB}/scale", scale | {"spec": {"replicas": 8}}).status

    def test_fewer_than_none_is_refused(self, api: Cluster) -> None:
        api.create(deployment())

        answer = api.call("PATCH", f"{WEB}/scale", {"spec": {"replicas": -1}}, content_type=MERGE)

        assert 422 == answer.status
        assert (
            'Scale.autoscaling "web" is invalid: spec.replicas: Invalid value: -1:'
            " must be greater than or equal to 0" == answer.message
        )

    def test_a_dry_run_scales_nothing(self, api: Cluster) -> None:
        api.create(deployment())

        answer = api.call(
            "PATCH", f"{WEB}/scale", {"spec": {"replicas": 5}}, content_type=MERGE, dryRun="All"
        )

        assert {"replicas": 5} == answer.body["spec"]
        assert 1 == api.get(deployment()).body["spec"]["replicas"]

    def test_a_crd_says_where_its_numbers_are(self, api: Cluster) -> None:
        numbers = {"type": "object", "properties": {"size": {"type": "integer"}}}
        schema = {"type": "object", "properties": {"spec": numbers, "status": numbers}}
        paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
        api.create(crd(schema=schema, subresources={"status": {}, "scale": paths}))
        api.create(manifest("example.com/v1", "Gadget", "g", spec={"size": 2}))
        path = "/apis/example.com/v1/namespaces/default/gadgets/g"

        before = api.call("GET", f"{path}/scale").body
        api.call("PATCH", f"{path}/scale", {"spec": {"replicas": 4}}, content_type=MERGE)

        assert {"replicas": 2} == before["spec"]
        assert {"size": 4} == api.call("GET", path).body["spec"]

    def test_kinds_without_a_scale_have_no_such_path(self, api: Cluster) -> None:
        api.create(config_map())

        path = "/api/v1/namespaces/default/configmaps/settings/scale"
        assert 404 == api.call("GET", path).status


class TestBinding:
    BODY: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web"},
        "target": {"kind": "Node", "name": "n1"},
    }

    def test_a_pod_gets_its_node(self, api: Cluster) -> None:
        api.create(pod())

        answer = api.call("POST", f"{PODS}/web/binding", self.BODY)

        bound = api.get(pod()).body
        assert (201, "Success") == (answer.status, answer.body["status"])
        assert "n1" == bound["spec"]["nodeName"]
        assert ("PodScheduled", "True") == (
            bound["status"]["conditions"][0]["type"],
            bound["status"]["conditions"][0]["status"],
        )

    def test_labels_and_annotations_of_the_binding_go_along(self, api: Cluster) -> None:
        api.create(pod())
        metadata = {"name": "web", "annotations": {"a": "1"}, "labels": {"b": "2"}}

        api.call("POST", f"{PODS}/web/binding", self.BODY | {"metadata": metadata})

        found = api.get(pod()).body["metadata"]
        assert ({"a": "1"}, {"b": "2"}) == (found["annotations"], found["labels"])

    def test_a_bound_pod_stays_where_it_is(self, api: Cluster) -> None:
        api.create(pod())
        api.call("POST", f"{PODS}/web/binding", self.BODY)

        answer = api.call("POST", f"{PODS}/web/binding", self.BODY)

        assert 409 == answer.status
        assert (
            'Operation cannot be fulfilled on pods/binding "web":'
            ' pod web is already assigned to node "n1"' == answer.message
        )

    def test_a_gated_pod_is_not_bound(self, api: Cluster) -> None:
        api.create(pod(schedulingGates=[{"name": "example.com/wait"}]))

        answer = api.call("POST", f"{PODS}/web/binding", self.BODY)

        assert 409 == answer.status
        assert "pod web has non-empty .spec.schedulingGates" in answer.message

    def test_bindings_may_be_posted_to_their_own_resource(self, api: Cluster) -> None:
        api.create(pod())

        answer = api.call("POST", "/api/v1/namespaces/default/bindings", self.BODY)

        assert 201 == answer.status
        assert "n1" == api.get(pod()).body["spec"]["nodeName"]

    def test_a_binding_without_a_node_is_refused(self, api: Cluster) -> None:
        api.create(pod())

        answer = api.call("POST", f"{PODS}/web/binding", self.BODY | {"target": {}})

        # A server takes it for its own mistake
        assert (500, "target.name: Required value") == (answer.status, answer.message)


class TestEviction:
    BODY: dict[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web", "namespace": "default"},
    }

    def running(self, api: Cluster, *, ready: bool = True) -> None:
        made = pod(nodeName="n1")
        made["metadata"]["labels"] = {"app": "web"}
        created = api.create(made)
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        status = {"phase": "Running", "conditions": [condition]}
        assert 200 == api.call("PUT", f"{PODS}/web/status", created | {"status": status}).status

    def budget(self, api: Cluster, allowed: int, name: str = "guard", **parts: Any) -> None:
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}} | parts.pop(
            "spec", {}
        )
        created = api.create(manifest("policy/v1", "PodDisruptionBudget", name, spec=spec))
        status = {
            "observedGeneration": 1,
            "disruptionsAllowed": allowed,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
        } | parts
        path = api.path_of(created)
        assert 200 == api.call("PUT", f"{path}/status", created | {"status": status}).status

    def evict(self, api: Cluster, **parts: Any) -> Any:
        return api.call("POST", f"{PODS}/web/eviction", self.BODY | parts)

    def test_a_pod_nobody_protects_goes(self, api: Cluster) -> None:
        self.running(api)

        answer = self.evict(api)

        metadata = api.get(pod()).body["metadata"]
        assert (201, "Success") == (answer.status, answer.body["status"])
        assert 30 == metadata["deletionGracePeriodSeconds"]

    def test_an_evicted_pod_says_why_it_goes(self, api: Cluster) -> None:
        self.running(api)

        self.evict(api)

        conditions = {c["type"]: c for c in api.get(pod()).body["status"]["conditions"]}
        assert "EvictionByEvictionAPI" == conditions["DisruptionTarget"]["reason"]

    def test_the_budget_is_spent_and_remembers_for_whom(self, api: Cluster) -> None:
        self.running(api)
        self.budget(api, 2)

        assert 201 == self.evict(api).status

        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/guard"
        status = api.call("GET", path).body["status"]
        assert 1 == status["disruptionsAllowed"]
        assert {"web": "2030-01-01T00:00:00Z"} == status["disruptedPods"]

    def test_an_empty_budget_refuses(self, api: Cluster) -> None:
        self.running(api)
        self.budget(api, 0)

        answer = self.evict(api)

        assert (429, "TooManyRequests") == (answer.status, answer.body["reason"])
        assert "Cannot evict pod as it would violate the pod's disruption budget." == answer.message
        assert [
            (
                "DisruptionBudget",
                "",
                "The disruption budget guard needs 1 healthy pods and has 1 currently",
            )
        ] == answer.causes
        assert "deletionTimestamp" not in api.get(pod()).body["metadata"]

    def test_a_budget_nobody_has_looked_at_refuses_for_a_while(self, api: Cluster) -> None:
        self.running(api)
        self.budget(api, 1, observedGeneration=0)

        answer = self.evict(api)

        assert (429, "10") == (answer.status, answer.headers["Retry-After"])
        assert (
            "The disruption budget guard is still being processed by the server."
            == (answer.causes[0][2])
        )

    def test_two_budgets_are_one_too_many(self, api: Cluster) -> None:
        self.running(api)
        self.budget(api, 1)
        self.budget(api, 1, "guard-2")

        answer = self.evict(api)

        assert 500 == answer.status
        assert "This pod has more than one PodDisruptionBudget" in answer.message

    def test_an_unhealthy_pod_goes_while_the_others_are_enough(self, api: Cluster) -> None:
        self.running(api, ready=False)
        self.budget(api, 0)

        assert 201 == self.evict(api).status

    def test_an_unhealthy_pod_stays_while_the_others_are_too_few(self, api: Cluster) -> None:
        self.running(api, ready=False)
        self.budget(api, 0, currentHealthy=0)

        assert 429 == self.evict(api).status

    def test_an_unhealthy_pod_always_goes_when_the_budget_says_so(self, api: Cluster) -> None:
        self.running(api, ready=False)
        self.budget(api, 0, currentHealthy=0, spec={"unhealthyPodEvictionPolicy": "AlwaysAllow"})

        assert 201 == self.evict(api).status

    def test_a_pod_that_does_not_run_yet_needs_no_budget(self, api: Cluster) -> None:
        made = pod()
        made["metadata"]["labels"] = {"app": "web"}
        api.create(made)
        self.budget(api, 0)

        assert 201 == self.evict(api).status
        assert 404 == api.get(pod()).status

    def test_a_dry_run_spends_nothing(self, api: Cluster) -> None:
        self.running(api)
        self.budget(api, 1)

        assert 201 == self.evict(api, deleteOptions={"dryRun": ["All"]}).status

        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/guard"
        assert 1 == api.call("GET", path).body["status"]["disruptionsAllowed"]
        assert "deletionTimestamp" not in api.get(pod()).body["metadata"]

    def test_the_grace_period_comes_from_the_eviction(self, api: Cluster) -> None:
        self.running(api)

        self.evict(api, deleteOptions={"gracePeriodSeconds": 5})

        assert 5 == api.get(pod()).body["metadata"]["deletionGracePeriodSeconds"]

    def test_another_version_of_the_pod_is_a_conflict(self, api: Cluster) -> None:
        self.running(api)
        options = {"preconditions": {"resourceVersion": "1"}}

        assert 409 == self.evict(api, deleteOptions=options).status

    def test_an_eviction_of_another_name_is_refused(self, api: Cluster) -> None:
        self.running(api)

        assert 400 == self.evict(api, metadata={"name": "other"}).status


class TestQuestions:
    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "SelfSubjectAccessReview"),
            ("/apis/authorization.k8s.io/v1/subjectaccessreviews", "SubjectAccessReview"),
        ],
    )
    def test_everything_is_allowed(self, api: Cluster, path: str, kind: str) -> None:
        question = {"resourceAttributes": {"verb": "get", "resource": "pods"}}

        answer = api.call("POST", path, {"spec": question})

        assert (201, kind, True) == (
            answer.status,
            answer.body["kind"],
            answer.body["status"]["allowed"],
        )

    def test_a_client_learns_who_it_is(self, api: Cluster) -> None:
        answer = api.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})

        assert "sandbox-admin" == answer.body["status"]["userInfo"]["username"]

    def test_rules_cover_everything(self, api: Cluster) -> None:
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        answer = api.call("POST", path, {"spec": {"namespace": "default"}})

        assert ["*"] == answer.body["status"]["resourceRules"][0]["verbs"]

    def test_a_token_names_its_account_and_its_end(self, api: Cluster) -> None:
        account = manifest("v1", "ServiceAccount", "bot")
        api.create(account)

        answer = api.call(
            "POST", f"{api.path_of(account)}/token", {"spec": {"expirationSeconds": 600}}
        )

        assert (201, "TokenRequest") == (answer.status, answer.body["kind"])
        assert "2030-01-01T00:10:00Z" == answer.body["status"]["expirationTimestamp"]
        assert 3 == len(answer.body["status"]["token"].split("."))

    @pytest.mark.parametrize(
        ("seconds", "status", "said"),
        [
            pytest.param(599, 422, "may not specify a duration less than 10 minutes", id="short"),
            pytest.param(
                2**32 + 1, 422, "may not specify a duration larger than 2^32 seconds", id="long"
            ),
            pytest.param("600", 400, "cannot unmarshal string", id="in words"),
        ],
    )
    def test_a_token_does_not_live(
        self, api: Cluster, seconds: object, status: int, said: str
    ) -> None:
        account = api.create(manifest("v1", "ServiceAccount", "bot"))
        body = {"spec": {"expirationSeconds": seconds}}

        answer = api.call("POST", f"{api.path_of(account)}/token", body)

        assert status == answer.status
        assert said in answer.message


class TestNotSimulated:
    @pytest.mark.parametrize(
        ("method", "part"),
        [
            ("GET", "log"),
            ("GET", "exec"),
            ("POST", "exec"),
            ("POST", "attach"),
            ("POST", "portforward"),
            ("GET", "proxy"),
            ("GET", "proxy/some/page"),
        ],
    )
    def test_what_needs_a_program_says_so(self, api: Cluster, method: str, part: str) -> None:
        api.create(pod())

        answer = api.call(method, f"{PODS}/web/{part}")

        assert (501, "NotImplemented") == (answer.status, answer.body["reason"])
        assert f"pods/{part.partition('/')[0]} is not simulated" in answer.message

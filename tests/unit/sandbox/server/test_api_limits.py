"""LimitRanges give to containers that ask for nothing, and refuse what is out of bounds."""

from typing import Any

import pytest

from helpers.server import Cluster, manifest, pod

PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


def limit(api: Cluster, kind: str, **bounds: Any) -> None:
    spec = {"limits": [{"type": kind, **bounds}]}
    api.create(manifest("v1", "LimitRange", "limits", spec=spec))


def container(name: str = "main", **resources: Any) -> dict[str, Any]:
    return {"name": name, "image": "nginx:1", "resources": resources}


def claim(storage: str) -> dict[str, Any]:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    return manifest("v1", "PersistentVolumeClaim", "data", spec=asked)


class TestDefaults:
    def test_containers_that_ask_for_nothing_get_them(self, api: Cluster) -> None:
        limit(api, "Container", default={"cpu": "500m"}, defaultRequest={"cpu": "100m"})

        created = api.create(pod())

        expected = {"requests": {"cpu": "100m"}, "limits": {"cpu": "500m"}}
        assert expected == created["spec"]["containers"][0]["resources"]
        assert "Burstable" == created["status"]["qosClass"]
        assert (
            "LimitRanger plugin set: cpu request for container main; cpu limit for container main"
            == created["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
        )

    def test_what_is_asked_for_stays(self, api: Cluster) -> None:
        limit(api, "Container", default={"cpu": "500m"}, defaultRequest={"cpu": "100m"})
        asked: dict[str, Any] = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}

        created = api.create(pod(containers=[container(**asked)]))

        assert asked == created["spec"]["containers"][0]["resources"]
        assert "annotations" not in created["metadata"]

    def test_other_namespaces_are_not_concerned(self, api: Cluster) -> None:
        limit(api, "Container", default={"cpu": "500m"})
        api.create(manifest("v1", "Namespace", "team", namespace=None))
        made = pod()
        made["metadata"]["namespace"] = "team"

        created = api.create(made)

        assert {} == created["spec"]["containers"][0]["resources"]

    def test_a_pod_that_exists_is_left_alone(self, api: Cluster) -> None:
        created = api.create(pod())
        limit(api, "Container", default={"cpu": "500m"}, max={"cpu": "1"})

        answer = api.call("PUT", api.path_of(created), created)

        assert (200, created["spec"]) == (answer.status, answer.body["spec"])


class TestBounds:
    @pytest.mark.parametrize(
        ("bounds", "asked", "said"),
        [
            pytest.param(
                {"max": {"cpu": "2"}},
                {"limits": {"cpu": "3"}},
                "maximum cpu usage per Container is 2, but limit is 3",
                id="a limit above the maximum",
            ),
            pytest.param(
                {"min": {"cpu": "50m"}},
                {"requests": {"cpu": "10m"}},
                "minimum cpu usage per Container is 50m, but request is 10m",
                id="a request below the minimum",
            ),
            pytest.param(
                {"maxLimitRequestRatio": {"cpu": "2"}},
                {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
                "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
                id="a limit too far from the request",
            ),
            pytest.param(
                {"maxLimitRequestRatio": {"cpu": "2"}},
                {"requests": {"cpu": "1"}},
                "cpu max limit to request ratio per Container is 2,"
                " but no limit is specified or limit is 0",
                id="no limit where there is a ratio",
            ),
        ],
    )
    def test_of_containers(
        self, api: Cluster, bounds: dict[str, Any], asked: dict[str, Any], said: str
    ) -> None:
        limit(api, "Container", **bounds)

        answer = api.call("POST", PODS, pod(containers=[container(**asked)]))

        assert (403, f'pods "web" is forbidden: {said}') == (answer.status, answer.message)

    def test_come_after_what_is_wrong_with_the_pod_itself(self, api: Cluster) -> None:
        limit(api, "Container", min={"cpu": "50m"})
        torn = container(requests={"cpu": "100m"}, limits={"cpu": "20m"})

        answer = api.call("POST", PODS, pod(containers=[torn]))

        assert 422 == answer.status

    def test_of_pods_hold_for_the_sum(self, api: Cluster) -> None:
        limit(api, "Pod", max={"memory": "1Gi"})
        parts = [container("a", limits={"memory": "512Mi"})]
        parts.append(container("b", limits={"memory": "768Mi"}))

        answer = api.call("POST", PODS, pod(containers=parts))

        assert (
            'pods "web" is forbidden: maximum memory usage per Pod is 1Gi, but limit is 1280Mi'
            == answer.message
        )

    def test_of_pods_count_what_starts_them_only_while_it_is_more(self, api: Cluster) -> None:
        limit(api, "Pod", max={"memory": "1Gi"})
        first = container("first", limits={"memory": "1Gi"})
        beside = {**container("beside", limits={"memory": "512Mi"}), "restartPolicy": "Always"}
        main = container("main", limits={"memory": "512Mi"})

        one_after_the_other = pod("fits", initContainers=[first, beside], containers=[main])
        at_once = pod("does-not", initContainers=[beside, first], containers=[main])

        assert 201 == api.call("POST", PODS, one_after_the_other).status
        assert "but limit is 1536Mi" in api.call("POST", PODS, at_once).message

    def test_without_a_limit_a_maximum_is_not_kept(self, api: Cluster) -> None:
        limit(api, "Pod", max={"memory": "1Gi"})

        answer = api.call("POST", PODS, pod())

        assert (
            'pods "web" is forbidden: maximum memory usage per Pod is 1Gi.  No limit is specified'
            == answer.message
        )

    @pytest.mark.parametrize(
        ("storage", "status"),
        [
            pytest.param("1Mi", 403, id="too small"),
            pytest.param("5Gi", 201, id="within"),
            pytest.param("1Ti", 403, id="too large"),
        ],
    )
    def test_of_claims(self, api: Cluster, storage: str, status: int) -> None:
        bounds = {"min": {"storage": "1Gi"}, "max": {"storage": "10Gi"}}
        limit(api, "PersistentVolumeClaim", **bounds)

        answer = api.call("POST", CLAIMS, claim(storage))

        assert status == answer.status

    def test_several_problems_are_told_together(self, api: Cluster) -> None:
        limit(api, "Pod", max={"cpu": "1", "memory": "1Gi"})
        asked: dict[str, Any] = {"limits": {"cpu": "2", "memory": "2Gi"}}

        answer = api.call("POST", PODS, pod(containers=[container(**asked)]))

        assert (
            'pods "web" is forbidden: [maximum cpu usage per Pod is 1, but limit is 2,'
            " maximum memory usage per Pod is 1Gi, but limit is 2Gi]"
        ) == answer.message

"""Volumes tie pods to nodes, and claims that wait for a node get their volume there."""

from typing import Any

import pytest

from helpers.placing import expression
from helpers.scheduler_bench import ZONE, Bench, node, pod

Json = dict[str, Any]

DRIVER = "ebs.csi.aws.com"


def claim(
    name: str = "data", *, volume: str = "", storage_class: str = "fast", **spec: Any
) -> Json:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}},
            **({"volumeName": volume} if volume else {}),
            **spec,
        },
        "status": {"phase": "Bound" if volume else "Pending"},
    }


def volume(name: str, *, zone: str = "", storage_class: str = "fast", **spec: Any) -> Json:
    terms = [{"matchExpressions": [expression(ZONE, "In", zone)]}]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if zone else {}
    return {
        "metadata": {"name": name},
        "spec": {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "10Gi"},
            "csi": {"driver": DRIVER, "volumeHandle": name},
            **affinity,
            **spec,
        },
        "status": {"phase": "Available"},
    }


def storage_class(
    mode: str = "WaitForFirstConsumer", *, zones: tuple[str, ...] = (), provisioner: str = DRIVER
) -> Json:
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}]
    return {
        "metadata": {"name": "fast"},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **({"allowedTopologies": allowed} if zones else {}),
    }


def using(name: str, *claims: str) -> Json:
    volumes = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": wanted}}
        for number, wanted in enumerate(claims or ("data",))
    ]
    return pod(name, volumes=volumes)


@pytest.fixture
def bench() -> Bench:
    made = Bench(node("a", zone="za"), node("b", zone="zb"))
    made.shelf.classes["fast"] = storage_class()
    return made


def put(bench: Bench, *objects: Json) -> None:
    for obj in objects:
        name = obj["metadata"]["name"]
        if "namespace" in obj["metadata"]:
            bench.shelf.claims["default", name] = obj
        else:
            bench.shelf.kept[name] = obj


HELPLESS = " no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."


class TestBeforeAnyNode:
    @pytest.mark.parametrize(
        ("claims", "problem"),
        [
            pytest.param(
                [], 'persistentvolumeclaim "data" not found', id="a claim that is missing"
            ),
            pytest.param(
                [claim(volume="gone")],
                'persistentvolume "gone" not found',
                id="a volume that is missing",
            ),
            pytest.param(
                [{**claim(volume="gone"), "status": {"phase": "Lost"}}],
                'persistentvolumeclaim "data" bound to non-existent persistentvolume "gone"',
                id="a claim that lost its volume",
            ),
            pytest.param(
                [claim(storage_class="other")],
                "pod has unbound immediate PersistentVolumeClaims",
                id="a claim of a class that is not there",
            ),
            pytest.param(
                [claim(storage_class="")],
                "pod has unbound immediate PersistentVolumeClaims",
                id="a claim without a class",
            ),
        ],
    )
    def test_the_pod_waits(self, bench: Bench, claims: list[Json], problem: str) -> None:
        put(bench, *claims)

        expected = f"0/2 nodes are available: {problem}. not found"
        assert expected == bench.decide(using("p"))

    def test_a_claim_that_is_bound_at_once_is_waited_for(self, bench: Bench) -> None:
        bench.shelf.classes["fast"] = storage_class("Immediate")
        put(bench, claim())

        assert "unbound immediate PersistentVolumeClaims" in bench.decide(using("p"))

    def test_a_claim_that_is_going_away_is_no_use(self, bench: Bench) -> None:
        leaving = claim(volume="v")
        leaving["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        put(bench, leaving, volume("v"))

        assert 'persistentvolumeclaim "data" is being deleted' in bench.decide(using("p"))


class TestWhere:
    def test_a_pod_follows_its_volume(self, bench: Bench) -> None:
        put(bench, claim(volume="v"), volume("v", zone="zb"))

        assert bench.decide(using("p")) == "b"

    def test_a_volume_out_of_reach_is_told(self, bench: Bench) -> None:
        put(bench, claim(volume="v"), volume("v", zone="zc"))

        expected = (
            "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."
        )
        assert expected + HELPLESS == bench.decide(using("p"))

    def test_labels_of_a_volume_name_its_zone(self, bench: Bench) -> None:
        labelled = volume("v")
        labelled["metadata"]["labels"] = {ZONE: "zb__zc"}
        put(bench, claim(volume="v"), labelled)

        assert bench.decide(using("p")) == "b"

    def test_a_zone_without_nodes_is_told(self, bench: Bench) -> None:
        labelled = volume("v")
        labelled["metadata"]["labels"] = {ZONE: "zc"}
        put(bench, claim(volume="v"), labelled)

        assert "2 node(s) had no available volume zone." in bench.decide(using("p"))

    def test_a_claim_is_provisioned_only_where_its_class_allows(self, bench: Bench) -> None:
        bench.shelf.classes["fast"] = storage_class(zones=("zb",))
        put(bench, claim())

        assert bench.decide(using("p")) == "b"

    def test_nowhere_to_provision_is_told(self, bench: Bench) -> None:
        bench.shelf.classes["fast"] = storage_class(zones=("zc",))
        put(bench, claim())

        assert "2 node(s) didn't find available persistent volumes to bind." in bench.decide(
            using("p")
        )


class TestBinding:
    """Claims that wait are bound to volumes that are there already, if any suits."""

    def choice(self, bench: Bench, obj: Json, name: str) -> dict[str, str]:
        info = bench.shapes.read(obj)
        return bench.storage.choice(info, bench.cluster.nodes[name].facts)

    def test_an_available_volume_is_taken(self, bench: Bench) -> None:
        bench.shelf.classes["fast"] = storage_class(provisioner="kubernetes.io/no-provisioner")
        put(bench, claim(), volume("v", zone="zb"))

        assert bench.decide(using("p")) == "b"
        assert {"data": "v"} == self.choice(bench, using("p"), "b")

    def test_the_smallest_that_suffices_is_taken(self, bench: Bench) -> None:
        put(bench, claim(), volume("large", capacity={"storage": "20Gi"}), volume("right"))
        put(bench, volume("small", capacity={"storage": "5Gi"}))

        assert {"data": "right"} == self.choice(bench, using("p"), "a")

    def test_two_claims_take_two_volumes(self, bench: Bench) -> None:
        bench.shelf.classes["fast"] = storage_class(provisioner="kubernetes.io/no-provisioner")
        put(bench, claim("one"), claim("two"), volume("v1", zone="za"), volume("v2", zone="za"))

        assert bench.decide(using("p", "one", "two")) == "a"
        assert {"one": "v1", "two": "v2"} == self.choice(bench, using("p", "one", "two"), "a")

    def test_one_volume_is_not_enough_for_two_claims(self, bench: Bench) -> None:
        bench.shelf.classes["fast"] = storage_class(provisioner="kubernetes.io/no-provisioner")
        put(bench, claim("one"), claim("two"), volume("v1", zone="za"))

        assert "didn't find available persistent volumes" in bench.decide(using("p", "one", "two"))

    @pytest.mark.parametrize(
        "unsuitable",
        [
            pytest.param(volume("v", storage_class="slow"), id="another class"),
            pytest.param(volume("v", accessModes=["ReadOnlyMany"]), id="another access mode"),
            pytest.param(volume("v", volumeMode="Block"), id="another volume mode"),
            pytest.param(volume("v", capacity={"storage": "1Gi"}), id="too small"),
            pytest.param(
                volume("v", claimRef={"namespace": "default", "name": "other"}), id="taken"
            ),
            pytest.param({**volume("v"), "status": {"phase": "Released"}}, id="released"),
        ],
    )
    def test_what_does_not_suit_is_not_taken(self, bench: Bench, unsuitable: Json) -> None:
        put(bench, claim(), unsuitable)

        assert {"data": ""} == self.choice(bench, using("p"), "a")

    def test_a_volume_reserved_for_the_claim_is_taken(self, bench: Bench) -> None:
        mine = {"namespace": "default", "name": "data"}
        put(bench, claim(), volume("v", claimRef=mine))

        assert {"data": "v"} == self.choice(bench, using("p"), "a")


class TestLimits:
    def limit(self, bench: Bench, name: str, count: int) -> None:
        driver = {"name": DRIVER, "allocatable": {"count": count}}
        bench.set_limits({"metadata": {"name": name}, "spec": {"drivers": [driver]}})

    def test_a_node_that_can_attach_no_more_is_full(self, bench: Bench) -> None:
        for name in ("one", "two", "three"):
            put(bench, claim(name, volume=f"v-{name}"), volume(f"v-{name}"))
        self.limit(bench, "a", 1)
        self.limit(bench, "b", 1)
        places = {bench.place(using("p1", "one")), bench.place(using("p2", "two"))}

        assert {"a", "b"} == places
        assert "2 node(s) exceed max volume count." in bench.decide(using("p3", "three"))

    def test_a_volume_that_is_attached_already_counts_once(self, bench: Bench) -> None:
        put(bench, claim(volume="v"), volume("v", zone="za"))
        self.limit(bench, "a", 1)
        first = bench.place(using("p1"))

        assert ("a", "a") == (first, bench.place(using("p2")))

    def test_attaching_ends_with_the_last_pod(self, bench: Bench) -> None:
        put(bench, claim("one", volume="v1"), volume("v1", zone="za"))
        put(bench, claim("two", volume="v2"), volume("v2", zone="za"))
        self.limit(bench, "a", 1)
        bench.place(using("p1", "one"))
        refused = bench.decide(using("p2", "two"))
        bench.remove(using("p1"))

        assert "1 node(s) exceed max volume count" in refused
        assert bench.decide(using("p2", "two")) == "a"

    def test_other_drivers_are_not_limited(self, bench: Bench) -> None:
        driver = {"name": "other", "allocatable": {"count": 0}}
        bench.set_limits({"metadata": {"name": "a"}, "spec": {"drivers": [driver]}})
        put(bench, claim(volume="v"), volume("v", zone="za"))

        assert bench.decide(using("p")) == "a"

    def test_a_volume_for_one_pod_serves_one_pod(self, bench: Bench) -> None:
        put(bench, claim(volume="v", accessModes=["ReadWriteOncePod"]), volume("v"))
        bench.shelf.users["default", "data"] = 1

        assert "with ReadWriteOncePod access mode already in-use by another pod" in bench.decide(
            using("p")
        )

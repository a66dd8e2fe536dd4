"""Where pods may go, and what kube-scheduler's words for "nowhere" are."""

from typing import Any

import pytest

from helpers.placing import expression, labelled, node_affinity, pinned_to, required, spread, term
from helpers.scheduler_bench import HOSTNAME, ZONE, Bench, node, pod, taint

Json = dict[str, Any]

NO_HELP = "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
NO_VICTIMS = "no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
WEB = {"app": "web"}


def refusal(reason: str, *, helpless: bool) -> str:
    return f"0/1 nodes are available: 1 {reason}. {NO_HELP if helpless else NO_VICTIMS}"


class TestOneNode:
    """A pod, a node, and the one reason that keeps them apart."""

    @pytest.mark.parametrize(
        ("machine", "wanting", "reason", "helpless"),
        [
            pytest.param(
                node("a", cpu="2"),
                pod("p", cpu="3"),
                "Insufficient cpu",
                True,
                id="more cpu than there is",
            ),
            pytest.param(
                node("a", memory="1Gi"),
                pod("p", memory="1025Mi"),
                "Insufficient memory",
                True,
                id="more memory than there is",
            ),
            pytest.param(
                node("a", more={"ephemeral-storage": "1Gi"}),
                pod("p", requests={"ephemeral-storage": "2Gi"}),
                "Insufficient ephemeral-storage",
                True,
                id="more storage than there is",
            ),
            pytest.param(
                node("a", more={"nvidia.com/gpu": "1"}),
                pod("p", requests={"nvidia.com/gpu": "2"}),
                "Insufficient nvidia.com/gpu",
                True,
                id="more devices than there are",
            ),
            pytest.param(
                node("a", pods="0"), pod("p"), "Too many pods", False, id="no room for any pod"
            ),
            pytest.param(
                node("a", taints=[taint("gpu", "yes")]),
                pod("p"),
                "node(s) had untolerated taint(s)",
                True,
                id="a taint",
            ),
            pytest.param(
                node("a", taints=[taint("gpu", "yes", "NoExecute")]),
                pod(
                    "p", tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
                ),
                "node(s) had untolerated taint(s)",
                True,
                id="a toleration for another effect",
            ),
            pytest.param(
                node("a", taints=[taint("gpu", "yes")]),
                pod("p", tolerations=[{"key": "gpu", "value": "no"}]),
                "node(s) had untolerated taint(s)",
                True,
                id="a toleration for another value",
            ),
            pytest.param(
                node("a", unschedulable=True),
                pod("p"),
                "node(s) were unschedulable",
                True,
                id="a cordon",
            ),
            pytest.param(
                node("a"),
                pod("p", nodeSelector={"disk": "ssd"}),
                "node(s) didn't match Pod's node affinity/selector",
                True,
                id="a node selector",
            ),
            pytest.param(
                node("a", labels={"disk": "hdd"}),
                pod("p", affinity=node_affinity([expression("disk", "NotIn", "hdd")])),
                "node(s) didn't match Pod's node affinity/selector",
                True,
                id="a node affinity",
            ),
            pytest.param(
                node("a"),
                pod("p", affinity=node_affinity([])),
                "node(s) didn't match Pod's node affinity/selector",
                True,
                id="a node affinity whose only term is empty",
            ),
            pytest.param(
                node("a"),
                pod("p", affinity=pinned_to("b")),
                "node(s) didn't satisfy plugin(s) [NodeAffinity]",
                True,
                id="the name of another node",
            ),
            pytest.param(
                node("a"),
                pod("p", topologySpreadConstraints=[spread(selector=labelled(app="web"))]),
                "node(s) didn't match pod topology spread constraints (missing required label)",
                True,
                id="spreading over a label that the node lacks",
            ),
            pytest.param(
                node("a"),
                pod("p", affinity=required("podAffinity", term(labelled(app="db")))),
                "node(s) didn't match pod affinity rules",
                True,
                id="wanting to be near pods that are nowhere",
            ),
        ],
    )
    def test_the_reason_is_told(
        self, machine: Json, wanting: Json, reason: str, helpless: bool
    ) -> None:
        assert refusal(reason, helpless=helpless) == Bench(machine).decide(wanting)

    @pytest.mark.parametrize(
        ("running", "wanting", "reason"),
        [
            pytest.param(
                pod("r", cpu="3"), pod("p", cpu="2"), "Insufficient cpu", id="cpu is taken"
            ),
            pytest.param(
                pod("r", ports=True),
                pod("p", ports=True),
                "node(s) didn't have free ports for the requested pod ports",
                id="a host port is taken",
            ),
            pytest.param(
                pod("r", labels=WEB),
                pod("p", affinity=required("podAntiAffinity", term(labelled(app="web")))),
                "node(s) didn't match pod anti-affinity rules",
                id="a pod is there that is wanted far",
            ),
            pytest.param(
                pod("r", affinity=required("podAntiAffinity", term(labelled(app="web")))),
                pod("p", labels=WEB),
                "node(s) didn't satisfy existing pods anti-affinity rules",
                id="a pod is there that wants it far",
            ),
        ],
    )
    def test_what_is_on_the_node_counts(self, running: Json, wanting: Json, reason: str) -> None:
        bench = Bench(node("a"))
        for obj in (running, wanting):
            if obj["spec"].pop("ports", None):
                obj["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        bench.run(running, on="a")

        assert refusal(reason, helpless=False) == bench.decide(wanting)

    @pytest.mark.parametrize(
        ("machine", "wanting"),
        [
            pytest.param(node("a", cpu="2"), pod("p", cpu="2"), id="exactly as much as there is"),
            pytest.param(node("a", cpu="0"), pod("p"), id="a pod that asks for nothing"),
            pytest.param(
                node("a", taints=[taint("gpu", "yes")]),
                pod("p", tolerations=[{"key": "gpu", "operator": "Equal", "value": "yes"}]),
                id="a toleration of any effect",
            ),
            pytest.param(
                node("a", taints=[taint("x"), taint("y", effect="NoExecute")]),
                pod("p", tolerations=[{"operator": "Exists"}]),
                id="a toleration of everything",
            ),
            pytest.param(
                node("a", taints=[taint("x", effect="PreferNoSchedule")]),
                pod("p"),
                id="a taint that only asks",
            ),
            pytest.param(
                node("a", unschedulable=True),
                pod(
                    "p",
                    tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}],
                ),
                id="a cordon that is tolerated",
            ),
            pytest.param(
                node("a", labels={"cores": "8"}),
                pod("p", affinity=node_affinity([expression("cores", "Gt", "7")])),
                id="a number that is greater",
            ),
            pytest.param(
                node("a", labels={"disk": "ssd"}),
                pod(
                    "p",
                    affinity=node_affinity(
                        [expression("disk", "DoesNotExist")], [expression("disk", "In", "ssd")]
                    ),
                ),
                id="the second of two alternatives",
            ),
            pytest.param(
                node("a"),
                pod("p", labels=WEB, affinity=required("podAffinity", term(labelled(app="web")))),
                id="the first of pods that want to be together",
            ),
            pytest.param(node("a"), pod("p", affinity=pinned_to("a")), id="its own name"),
        ],
    )
    def test_nothing_keeps_them_apart(self, machine: Json, wanting: Json) -> None:
        assert Bench(machine).decide(wanting) == "a"


class TestWording:
    def test_nodes_are_counted_by_reason_and_reasons_sorted_as_text(self) -> None:
        bench = Bench(
            node("a", cpu="1"),
            node("b", cpu="1", memory="1Mi"),
            node("c", taints=[taint("x")]),
            node("d", unschedulable=True),
        )

        expected = (
            "0/4 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint(s),"
            " 1 node(s) were unschedulable, 2 Insufficient cpu. no new claims to deallocate,"
            " preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
        )
        assert expected == bench.decide(pod("p", cpu="2", memory="1Gi"))

    def test_preemption_tells_apart_what_it_could_help_with(self) -> None:
        bench = Bench(node("a", cpu="2"), node("b", cpu="2"), node("c", taints=[taint("x")]))
        bench.run(pod("r1", cpu="2"), on="a")
        bench.run(pod("r2", cpu="1"), on="b")

        expected = (
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
            " no new claims to deallocate, preemption: 0/3 nodes are available:"
            " 1 Preemption is not helpful for scheduling,"
            " 2 No preemption victims found for incoming pod."
        )
        assert expected == bench.decide(pod("p", cpu="2"))

    def test_a_cluster_without_nodes_has_its_own_sentence(self) -> None:
        assert Bench().decide(pod("p")) == "no nodes available to schedule pods"

    def test_a_pod_that_never_preempts_says_so(self) -> None:
        bench = Bench(node("a", cpu="2"))

        expected = (
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate,"
            " preemption: not eligible due to preemptionPolicy=Never."
        )
        assert expected == bench.decide(pod("p", cpu="3", preemptionPolicy="Never"))

    def test_a_pod_of_a_daemonset_names_the_plugin_for_all_other_nodes(self) -> None:
        bench = Bench(node("a", cpu="1"), node("b"), node("c"))

        expected = (
            "0/3 nodes are available: 1 Insufficient cpu,"
            " 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims to deallocate,"
            " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
        )
        assert expected == bench.decide(pod("p", cpu="2", affinity=pinned_to("a")))

    def test_pods_that_are_alike_are_told_the_same_until_something_changes(self) -> None:
        bench = Bench(node("a", cpu="1"))
        first = bench.decide(pod("p1", cpu="2"))
        again = bench.decide(pod("p2", cpu="2"))
        bench.set_node(node("b", cpu="1"))
        later = bench.decide(pod("p3", cpu="2"))

        assert first == again
        assert later.startswith("0/2 nodes are available: 2 Insufficient cpu.")


class TestRequests:
    @pytest.mark.parametrize(
        ("spec", "millicores"),
        [
            pytest.param({}, 100, id="containers alone"),
            pytest.param({"overhead": {"cpu": "50m"}}, 150, id="with overhead"),
            pytest.param(
                {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "2"}}}]},
                2000,
                id="a larger init container",
            ),
            pytest.param(
                {
                    "initContainers": [
                        {
                            "name": "s",
                            "restartPolicy": "Always",
                            "resources": {"requests": {"cpu": "300m"}},
                        },
                        {"name": "i", "resources": {"requests": {"cpu": "1"}}},
                    ]
                },
                1300,
                id="an init container beside a sidecar",
            ),
            pytest.param(
                {"resources": {"requests": {"cpu": "700m"}}}, 700, id="the pod as a whole"
            ),
        ],
    )
    def test_a_pod_takes_what_its_parts_add_up_to(self, spec: Json, millicores: int) -> None:
        wanting = pod("p", cpu="100m", **spec)
        fits = Bench(node("a", cpu=f"{millicores}m")).decide(wanting)
        barely_not = Bench(node("a", cpu=f"{millicores - 1}m")).decide(wanting)

        assert "a" == fits
        assert "Insufficient cpu" in barely_not

    @pytest.mark.parametrize(
        ("running", "wanted", "is_free"),
        [
            pytest.param(("", "TCP"), ("", "TCP"), False, id="the same port"),
            pytest.param(("", "TCP"), ("", "UDP"), True, id="another protocol"),
            pytest.param(("10.0.0.1", "TCP"), ("10.0.0.2", "TCP"), True, id="another address"),
            pytest.param(("10.0.0.1", "TCP"), ("", "TCP"), False, id="any address"),
        ],
    )
    def test_host_ports_collide(
        self, running: tuple[str, str], wanted: tuple[str, str], is_free: bool
    ) -> None:
        def with_port(name: str, address: str, protocol: str) -> Json:
            obj = pod(name)
            port = {"containerPort": 1, "hostPort": 53, "protocol": protocol}
            obj["spec"]["containers"][0]["ports"] = [
                {**port, **({"hostIP": address} if address else {})}
            ]
            return obj

        bench = Bench(node("a"))
        bench.run(with_port("r", *running), on="a")

        assert is_free == (bench.decide(with_port("p", *wanted)) == "a")


class TestChanges:
    """What was remembered of a node is forgotten when it is no longer true."""

    def test_room_comes_back_when_a_pod_leaves(self) -> None:
        bench = Bench(node("a", cpu="1"))
        first = pod("p1", cpu="1")
        bench.place(first)
        refused = bench.decide(pod("p2", cpu="1"))
        bench.remove(first)

        assert "Insufficient cpu" in refused
        assert bench.decide(pod("p2", cpu="1")) == "a"

    def test_a_node_that_loses_its_taint_is_a_place(self) -> None:
        bench = Bench(node("a", taints=[taint("x")]))
        refused = bench.decide(pod("p"))
        bench.set_node(node("a"))

        assert "untolerated taint" in refused
        assert bench.decide(pod("p")) == "a"

    def test_a_node_that_is_gone_is_no_place(self) -> None:
        bench = Bench(node("a"), node("b"))
        bench.decide(pod("p"))
        bench.cluster.remove_node("a")

        assert bench.decide(pod("p")) == "b"

    def test_pods_of_a_node_that_comes_back_count_again(self) -> None:
        bench = Bench(node("a", cpu="1"))
        bench.run(pod("r", cpu="1"), on="a")
        bench.decide(pod("p", cpu="1"))
        bench.cluster.remove_node("a")
        bench.set_node(node("a", cpu="1"))

        assert "Insufficient cpu" in bench.decide(pod("p", cpu="1"))

    def test_nothing_is_kept_of_a_node_whose_pods_are_gone_too(self) -> None:
        bench = Bench(node("a"), node("b"))
        driver = {"name": "ebs.csi.aws.com", "allocatable": {"count": 25}}
        bench.set_limits({"metadata": {"name": "a"}, "spec": {"drivers": [driver]}})
        pods = [pod("r1"), pod("r2")]
        bench.run(*pods, on="a")
        bench.cluster.remove_node("a")
        bench.set_limits({"metadata": {"name": "a"}, "spec": {"drivers": []}})
        for each in pods:
            bench.remove(each)

        cluster = bench.cluster
        assert ({}, {}, {}) == (cluster.pods, cluster._homeless, cluster._limits)

    def test_namespaces_are_selected_by_their_labels_of_now(self) -> None:
        bench = Bench(node("a"), node("b"))
        bench.cluster.set_namespace("other", {})
        bench.run(pod("r", namespace="other", labels=WEB), on="a")
        near = required(
            "podAffinity",
            term(labelled(app="web"), namespaceSelector=labelled(team="x")),
        )
        before = bench.decide(pod("p", affinity=near))
        bench.cluster.set_namespace("other", {"team": "x"})

        assert "pod affinity rules" in before
        assert bench.decide(pod("p", affinity=near)) == "a"


class TestSpreading:
    def spreading(self, name: str, **more: Any) -> Json:
        constraint = spread(ZONE, selector=labelled(app="web"), **more)
        return pod(name, labels=WEB, topologySpreadConstraints=[constraint])

    def zones(self, *names: str) -> Bench:
        return Bench(*(node(f"n-{zone}", zone=zone) for zone in names))

    def test_pods_go_round_the_zones(self) -> None:
        bench = self.zones("a", "b", "c")
        places = [bench.place(self.spreading(f"p{n}")) for n in range(9)]

        counts = sorted(places.count(name) for name in set(places))
        assert [3, 3, 3] == counts

    def test_a_full_zone_holds_up_the_others(self) -> None:
        bench = self.zones("a", "b")
        bench.set_node(node("n-b", zone="b", pods="1"))
        places = [bench.place(self.spreading(f"p{n}")) for n in range(3)]

        assert {"n-a": 2, "n-b": 1} == {name: places.count(name) for name in places}
        assert bench.place(self.spreading("p4")).startswith(
            "0/2 nodes are available: 1 Too many pods,"
            " 1 node(s) didn't match pod topology spread constraints."
        )

    def test_fewer_domains_than_asked_for_count_as_empty_ones(self) -> None:
        bench = self.zones("a", "b")
        places = [bench.place(self.spreading(f"p{n}", minDomains=3)) for n in range(3)]

        assert {"n-a", "n-b"} == set(places[:2])
        assert "topology spread constraints" in places[2]

    def test_pods_on_their_way_out_do_not_count(self) -> None:
        bench = self.zones("a", "b")
        leaving = self.spreading("r")
        leaving["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        bench.run(leaving, on="n-a")
        places = {bench.place(self.spreading(f"p{n}")) for n in range(2)}

        assert {"n-a", "n-b"} == places

    def test_nodes_the_pod_cannot_select_are_no_domains(self) -> None:
        bench = Bench(node("n-a", zone="a", labels={"pool": "x"}), node("n-b", zone="b"))
        obj = self.spreading("p")
        obj["spec"]["nodeSelector"] = {"pool": "x"}
        bench.run(self.spreading("r"), on="n-a")

        assert bench.decide(obj) == "n-a"

    def test_nodes_the_pod_cannot_select_are_domains_when_told_so(self) -> None:
        bench = Bench(node("n-a", zone="a", labels={"pool": "x"}), node("n-b", zone="b"))
        obj = self.spreading("p", nodeAffinityPolicy="Ignore")
        obj["spec"]["nodeSelector"] = {"pool": "x"}
        bench.run(self.spreading("r"), on="n-a")

        assert "topology spread constraints" in bench.decide(obj)

    @pytest.mark.parametrize(
        ("policy", "is_placed"),
        [
            pytest.param("Ignore", False, id="tainted nodes count"),
            pytest.param("Honor", True, id="tainted nodes do not count"),
        ],
    )
    def test_tainted_nodes(self, policy: str, is_placed: bool) -> None:
        bench = Bench(node("n-a", zone="a"), node("n-b", zone="b", taints=[taint("x")]))
        bench.run(self.spreading("r"), on="n-a")
        obj = self.spreading("p", nodeTaintsPolicy=policy)

        assert is_placed == (bench.decide(obj) == "n-a")

    def test_label_keys_part_pods_of_different_revisions(self) -> None:
        bench = self.zones("a", "b")

        def revision(name: str, number: str) -> Json:
            obj = self.spreading(name, matchLabelKeys=["rev"])
            obj["metadata"]["labels"]["rev"] = number
            return obj

        bench.run(revision("r1", "1"), on="n-a")
        first = bench.place(revision("p1", "2"))
        second = bench.place(revision("p2", "2"))

        assert {"n-a", "n-b"} == {first, second}

    def test_two_nodes_may_share_a_hostname(self) -> None:
        twins = (node("n1", labels={HOSTNAME: "same"}), node("n2", labels={HOSTNAME: "same"}))
        bench = Bench(*twins, node("n3"))
        apart = required("podAntiAffinity", term(labelled(app="web")))
        bench.run(pod("r", labels=WEB, affinity=apart), on="n3")
        first = bench.place(pod("p1", labels=WEB, affinity=apart))
        second = bench.place(pod("p2", labels=WEB, affinity=apart))

        assert first in ("n1", "n2")
        assert second.startswith(
            "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules."
        )


class TestAffinity:
    def test_pods_gather_in_the_zone_of_the_first(self) -> None:
        bench = Bench(*(node(f"n{i}", zone=f"z{i % 2}") for i in range(4)))
        near = required("podAffinity", term(labelled(app="web"), ZONE))
        places = [bench.place(pod(f"p{n}", labels=WEB, affinity=near)) for n in range(6)]

        assert 1 == len({int(place[1]) % 2 for place in places})

    def test_anti_affinity_gives_every_pod_its_own_node(self) -> None:
        bench = Bench(*(node(f"n{i}") for i in range(3)))
        apart = required("podAntiAffinity", term(labelled(app="web")))
        places = [bench.place(pod(f"p{n}", labels=WEB, affinity=apart)) for n in range(3)]

        assert ["n0", "n1", "n2"] == sorted(places)
        assert "anti-affinity rules" in bench.place(pod("p4", labels=WEB, affinity=apart))

    def test_terms_mean_the_pods_of_their_own_namespace(self) -> None:
        bench = Bench(node("a"))
        bench.run(pod("r", labels=WEB, namespace="other"), on="a")
        apart = required("podAntiAffinity", term(labelled(app="web")))

        assert bench.decide(pod("p", affinity=apart)) == "a"

    def test_terms_mean_the_pods_of_the_namespaces_they_list(self) -> None:
        bench = Bench(node("a"))
        bench.run(pod("r", labels=WEB, namespace="other"), on="a")
        apart = required("podAntiAffinity", term(labelled(app="web"), namespaces=["other"]))

        assert "anti-affinity rules" in bench.decide(pod("p", affinity=apart))

    def test_all_that_is_wanted_near_must_be_true_of_one_pod(self) -> None:
        bench = Bench(node("a"))
        bench.run(pod("r1", labels={"app": "x"}), pod("r2", labels={"tier": "y"}), on="a")
        near = required("podAffinity", term(labelled(app="x")), term(labelled(tier="y")))

        assert "pod affinity rules" in bench.decide(pod("p", affinity=near))

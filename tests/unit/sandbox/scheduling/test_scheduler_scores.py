"""Which of the nodes where a pod may go it goes to."""

from typing import Any

import pytest

from helpers.placing import expression, labelled, preferred, required, spread, term
from helpers.scheduler_bench import HOSTNAME, ZONE, Bench, node, pod, taint

Json = dict[str, Any]

WEB = {"app": "web"}


def wishing_for(label: str, weight: int = 1) -> Json:
    preference = {"matchExpressions": [expression(label, "Exists")]}
    wishes = [{"weight": weight, "preference": preference}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}


def large(affinity: Json) -> Json:
    """A pod that leaves its node less room than the others have."""
    return pod("r", cpu="1", memory="4Gi", affinity=affinity)


@pytest.mark.parametrize(
    ("nodes", "running", "wanting", "chosen"),
    [
        pytest.param(
            [node("a"), node("b")],
            {"a": [pod("r", cpu="2", memory="8Gi")]},
            pod("p", cpu="1", memory="4Gi"),
            "b",
            id="the emptier node",
        ),
        pytest.param(
            [node("a", cpu="4", memory="4Gi"), node("b", cpu="4", memory="64Gi")],
            {},
            pod("p", cpu="2", memory="2Gi"),
            "a",
            id="the node that would be used evenly, where both would be half empty",
        ),
        pytest.param(
            [node("a"), node("b", taints=[taint("x", effect="PreferNoSchedule")])],
            {"a": [pod("r", cpu="2", memory="8Gi")]},
            pod("p", cpu="1"),
            "a",
            id="the node whose taints do not ask it to go elsewhere",
        ),
        pytest.param(
            [node("a", labels={"ssd": "yes"}), node("b")],
            {"a": [pod("r", cpu="1", memory="4Gi")]},
            pod("p", cpu="1", affinity=wishing_for("ssd")),
            "a",
            id="the node with the label it would like",
        ),
        pytest.param(
            [node("a", labels={"ssd": "yes"}), node("b", labels={"gpu": "yes"})],
            {"b": [pod("r", cpu="1", memory="4Gi")]},
            pod(
                "p",
                affinity={
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            *wishing_for("ssd", 1)["nodeAffinity"][
                                "preferredDuringSchedulingIgnoredDuringExecution"
                            ],
                            *wishing_for("gpu", 50)["nodeAffinity"][
                                "preferredDuringSchedulingIgnoredDuringExecution"
                            ],
                        ]
                    }
                },
            ),
            "b",
            id="the node with the label it would like most",
        ),
        pytest.param(
            [node("a"), node("b")],
            {"a": [pod("r", cpu="1", memory="4Gi", labels=WEB)]},
            pod("p", affinity=preferred("podAffinity", (10, term(labelled(app="web"))))),
            "a",
            id="the node with a pod it would like near",
        ),
        pytest.param(
            [node("a"), node("b", cpu="1", memory="1Gi")],
            {"a": [pod("r", labels=WEB)]},
            pod(
                "p",
                cpu="500m",
                affinity=preferred("podAntiAffinity", (10, term(labelled(app="web")))),
            ),
            "b",
            id="the node without a pod it would like far",
        ),
        pytest.param(
            [node("a"), node("b")],
            {"a": [large(preferred("podAffinity", (10, term(labelled(app="web")))))]},
            pod("p", labels=WEB),
            "a",
            id="the node with a pod that would like it near",
        ),
        pytest.param(
            [node("a"), node("b")],
            {"a": [large(required("podAffinity", term(labelled(app="web"))))]},
            pod("p", labels=WEB),
            "a",
            id="the node with a pod that needed others near",
        ),
        pytest.param(
            [node("a", zone="1"), node("b", zone="1"), node("c", zone="2", cpu="2", memory="2Gi")],
            {"a": [pod("r", labels=WEB)]},
            pod(
                "p",
                cpu="1",
                memory="1Gi",
                labels=WEB,
                topologySpreadConstraints=[spread(ZONE, selector=labelled(app="web"), hard=False)],
            ),
            "c",
            id="the zone with fewer pods like it",
        ),
    ],
)
def test_a_pod_goes_to(
    nodes: list[Json], running: dict[str, list[Json]], wanting: Json, chosen: str
) -> None:
    bench = Bench(*nodes)
    for name, pods in running.items():
        bench.run(*pods, on=name)

    assert chosen == bench.decide(wanting)


def test_pods_of_one_service_are_spread_without_asking() -> None:
    bench = Bench(*(node(f"n{i}", zone=f"z{i % 3}") for i in range(6)))
    bench.services.selectors["default"] = WEB
    places = [bench.place(pod(f"p{n}", labels=WEB)) for n in range(6)]

    assert [f"n{i}" for i in range(6)] == sorted(places)


def test_spreading_without_asking_needs_no_zones() -> None:
    bench = Bench(node("a"), node("b"))
    bench.services.selectors["default"] = WEB
    places = [bench.place(pod(f"p{n}", labels=WEB)) for n in range(4)]

    assert [2, 2] == [places.count("a"), places.count("b")]


def test_a_pod_that_says_how_it_spreads_is_spread_no_other_way() -> None:
    bench = Bench(node("a", cpu="40", memory="160Gi"), node("b", cpu="1", memory="1Gi"))
    bench.services.selectors["default"] = WEB
    bench.run(pod("r", labels=WEB), on="a")
    own = [spread(HOSTNAME, selector=labelled(app="none"), hard=False)]
    wanting = pod("p", cpu="500m", labels=WEB, topologySpreadConstraints=own)

    assert bench.decide(wanting) == "a"


def test_ties_are_broken_at_random_but_the_same_way_for_a_seed() -> None:
    def places(seed: int) -> list[str]:
        bench = Bench(*(node(f"n{i}", cpu="1000", memory="4000Gi") for i in range(10)), seed=seed)
        return [bench.place(pod(f"p{n}", cpu="10m", memory="10Mi")) for n in range(10)]

    first, again, other = places(1), places(1), places(2)

    assert first == again
    assert first != other
    assert len(set(first)) > 3

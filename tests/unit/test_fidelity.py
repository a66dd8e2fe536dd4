"""How ``python -m benchmarks fidelity`` reads a scenario, observes a cluster, and judges a simulation."""

import dataclasses
import io
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from benchmarks import fidelity
from benchmarks.fidelity_figures import Figures, Phase, StoreObserver
from benchmarks.fidelity_real import changes_in, load_of, undriven
from benchmarks.fidelity_report import Row, rows, shared, table
from rich.console import Console

from helpers.simulated import scenario, small_pool, steps
from karpenter.cloud.kwok.catalogue import built_in
from karpenter.simulate.observing import make_observers
from karpenter.simulate.report.document import variant_document
from karpenter.simulate.runs import setup_of
from karpenter.simulate.scenario.reader import Loaded, Options, load
from karpenter.simulate.seam import View
from karpenter.simulate.variant_run import run_world
from karpenter.simulate.world import Hooks
from karpenter_sandbox.store.store import Key, Store

HEAD = """\
apiVersion: simulate.karpenter.sh/v1
kind: Scenario
metadata: {name: test}
until: 80s
"""
_POOL = json.dumps(small_pool())


def _figures(
    *,
    all_run: float | None = 50.0,
    rest: float = 200.0,
    nodes: int = 100,
    cost: float = 10.0,
    evictions: int = 100,
    types: Mapping[str, int] | None = None,
) -> Figures:
    return Figures(
        phases=[Phase(at=0.0, wanted=9, all_run=all_run, rest=rest, nodes=nodes)],
        dollar_hours=cost,
        evictions=evictions,
        types=types or {"m": 100},
        zones={"a": 100},
        running=9,
        left=(),
        course=(),
    )


def _off(simulated: Figures, *real: Figures) -> set[str]:
    found = rows(simulated, real or [_figures()])
    return {each.name.removeprefix("from 0 s: ") for each in found if not each.agrees}


# --- Comparing


@pytest.mark.parametrize(
    ("name", "within", "beyond"),
    [
        ("all pods run", _figures(all_run=57.5), _figures(all_run=57.6)),
        ("all pods run", _figures(all_run=42.5), _figures(all_run=42.4)),
        ("at rest", _figures(rest=250.0), _figures(rest=250.1)),
        ("nodes in the end", _figures(nodes=105), _figures(nodes=106)),
        ("cost", _figures(cost=9.5), _figures(cost=9.49)),
        ("evictions", _figures(evictions=110), _figures(evictions=111)),
        ("types bought", _figures(types={"m": 95, "c": 5}), _figures(types={"m": 94, "c": 6})),
    ],
)
def test_each_figure_has_a_tolerance_of_its_own(
    name: str, within: Figures, beyond: Figures
) -> None:
    assert set() == _off(within)
    assert {name} == _off(beyond)


@pytest.mark.parametrize(
    ("name", "real", "within", "beyond"),
    [
        ("nodes in the end", _figures(nodes=3), _figures(nodes=4), _figures(nodes=5)),
        ("all pods run", _figures(all_run=2.0), _figures(all_run=7.0), _figures(all_run=7.1)),
        ("at rest", _figures(rest=1.0), _figures(rest=6.0), _figures(rest=6.1)),
        ("evictions", _figures(evictions=0), _figures(evictions=3), _figures(evictions=4)),
    ],
)
def test_small_figures_may_be_off_by_a_little(
    name: str, real: Figures, within: Figures, beyond: Figures
) -> None:
    assert set() == _off(within, real)
    assert {name} == _off(beyond, real)


def test_what_real_runs_differ_by_is_added_to_what_is_allowed_around_their_median() -> None:
    real = [_figures(nodes=100), _figures(nodes=110), _figures(nodes=102)]

    assert set() == _off(_figures(nodes=117), *real)
    assert {"nodes in the end"} == _off(_figures(nodes=118), *real)
    (nodes,) = (each for each in rows(_figures(), real) if each.name.endswith("nodes in the end"))
    assert (102, 10, 10 + 0.05 * 102) == (nodes.middle, nodes.spread, nodes.allowed)


def test_what_real_runs_bought_differently_is_allowed_for_as_well() -> None:
    real = [_figures(types={"m": 100}), _figures(types={"m": 90, "c": 10})]

    assert set() == _off(_figures(types={"m": 80, "c": 20}), *real)
    assert {"types bought"} == _off(_figures(types={"m": 79, "c": 21}), *real)


def test_pods_that_never_run_agree_with_pods_that_never_run_alone() -> None:
    assert set() == _off(_figures(all_run=None), _figures(all_run=None))
    assert {"all pods run"} == _off(_figures(all_run=None))
    assert {"all pods run"} == _off(_figures(), _figures(), _figures(all_run=None))


def test_machines_have_a_counterpart_of_the_same_kind_each() -> None:
    assert shared({"m": 2, "c": 1}, {"m": 1, "c": 1}) == pytest.approx(2 / 3)
    assert shared({}, {}) == 1.0
    assert shared({"m": 1}, {}) == 0.0


def test_the_table_shows_both_sides_the_spread_and_the_verdict() -> None:
    out = io.StringIO()
    found = [
        Row("nodes", "", 104.0, (100.0, 101.0), 100.5, 1.0, 6.0),
        Row("at rest", "s", 12.25, (40.0,), 40.0, 0.0, 10.0),
        Row("all pods run", "s", None, (), None, 0.0, 0.0),
    ]
    Console(file=out, width=120).print(table(found))
    nodes, rest, run = out.getvalue().splitlines()[3:-1]

    assert ["nodes", "104", "100, 101", "+3.5%", "1", "± 6", "✓"] == _cells(nodes)
    assert ["at rest", "12.25 s", "40 s", "-69.4%", "0 s", "± 10 s", "✗"] == _cells(rest)
    assert ["all pods run", "never", "never", "", "0 s", "± 0 s", "✓"] == _cells(run)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("│").split("│")]


# --- Observing


def test_who_sees_the_store_alone_counts_what_the_report_counts() -> None:
    loaded = fidelity.smoke()
    observer = StoreObserver([0.0, 15.0], billing_minimum=60.0)
    observers = [*make_observers(), observer]
    run = run_world(setup_of(loaded, 0), Hooks(observers=observers))
    *seen, figures = run.observed
    report = variant_document(dataclasses.replace(run, observed=tuple(seen)))

    assert isinstance(figures, Figures)
    assert figures.dollar_hours == pytest.approx(report["cost"]["dollarHours"])
    assert report["disruption"]["evictions"] == figures.evictions
    assert report["nodes"]["created"] == sum(figures.types.values()) == sum(figures.zones.values())
    assert report["atEnd"]["lastNodeChange"] == figures.course[-1][0]


def test_a_scenario_comes_and_goes_and_leaves_nothing() -> None:
    figures = fidelity.simulated_run(fidelity.smoke())
    come, go = figures.phases

    assert (0.0, 4, 1) == (come.at, come.wanted, min(come.nodes, 1))
    assert come.all_run is not None
    assert 0.0 < come.all_run < 15.0
    assert (15.0, 0, None, 0) == (go.at, go.wanted, go.all_run, go.nodes)
    assert (0, ()) == (figures.running, figures.left)


def test_pods_count_as_running_only_when_all_that_are_wanted_are_ready() -> None:
    store, moment = Store(), [0.0]
    observer = _following(store, moment)
    _put(store, ("apps", "deployments", "default", "web"), {"spec": {"replicas": 2}})
    for at, name in ((3.0, "one"), (7.0, "two")):
        moment[0] = at
        _put(store, ("", "pods", "default", name), _running(name))
    moment[0] = 20.0

    (phase,) = observer.finish().phases
    assert (2, 7.0) == (phase.wanted, phase.all_run)


def test_a_claim_without_a_node_and_a_node_without_a_claim_are_left_over() -> None:
    store, moment = Store(), [0.0]
    observer = _following(store, moment)
    _put(store, ("karpenter.sh", "nodeclaims", "", "lost"), {"status": {"nodeName": "gone"}})
    _put(store, ("", "nodes", "", "leaked"), {"spec": {"providerID": "kwok://leaked"}})
    _put(store, ("", "nodes", "", "fixed"), {"spec": {}})

    assert ("NodeClaim/lost", "Node/leaked") == observer.finish().left


def _following(store: Store, moment: list[float]) -> StoreObserver:
    observer = StoreObserver([0.0], billing_minimum=60.0)
    view = View(
        start=datetime.now(UTC),
        until=20.0,
        warmup=0.0,
        grid=10.0,
        store=store,
        types=built_in(),
        now=lambda: moment[0],
        price=lambda *_: 1.0,
    )
    observer.begin(view)
    store.on_change(observer.changed)
    return observer


def _put(store: Store, place: tuple[str, str, str, str], body: dict[str, object]) -> None:
    key = Key(*place)
    kind = {"deployments": "Deployment", "pods": "Pod"}.get(key.resource, "Other")
    metadata = {"name": key.name, "namespace": key.namespace, "uid": key.name}
    store.create(key, {"kind": kind, "metadata": metadata, **body})


def _running(name: str) -> dict[str, object]:
    conditions = [{"type": "Ready", "status": "True"}]
    return {
        "spec": {"containers": [{"name": name}]},
        "status": {"phase": "Running", "conditions": conditions},
    }


# --- What users do


def _loaded(text: str, until: str | None = None) -> Loaded:
    return load("test.yaml", (HEAD + text).encode(), Path.cwd(), Options(until=until))


def test_workloads_and_steps_become_what_users_send_in_the_order_of_time() -> None:
    loaded = _loaded(
        """\
workloads:
- {name: web, pod: {cpu: 1}, steps: [{at: 0s, replicas: 3}, {at: 20s, replicas: 1}], pdb: {maxUnavailable: 1}}
timeline:
- {at: 5s, mark: here}
- {at: 10s, scale: {target: Deployment/web, replicas: 5}}
- {at: 15s, patch: [{target: NodePool/default, merge: {spec: {weight: 3}}}]}
- {at: 20s, rollout: Deployment/web}
- {at: 25s, apply: [{apiVersion: v1, kind: ConfigMap, metadata: {name: extra}}]}
- {at: 30s, delete: [NodePool/default]}
---
"""
        + _POOL
    )
    done = load_of(loaded)

    assert [
        (0.0, "create", "PodDisruptionBudget", "web"),
        (0.0, "create", "Deployment", "web"),
        (10.0, "scale", "Deployment", "web"),
        (15.0, "merge", "NodePool", "default"),
        (20.0, "merge", "Deployment", "web"),
        (20.0, "scale", "Deployment", "web"),
        (25.0, "apply", "ConfigMap", "extra"),
        (30.0, "delete", "NodePool", "default"),
    ] == [(each.at, each.verb, each.kind, each.name) for each in done]
    assert [5, 1] == [each.replicas for each in done if each.verb == "scale"]
    assert {"karpenter.sh/v1"} == {each.api_version for each in done if each.kind == "NodePool"}
    assert [0.0, 10.0, 15.0, 20.0, 25.0, 30.0] == changes_in(done)


def test_every_field_that_cannot_be_driven_is_named() -> None:
    wanted = scenario(
        machines={"boot": "30s"},
        controlPlane={"latency": "10ms"},
        prices=[{"factor": 2}],
        interruptions=[{"rate": "5%/d"}],
        compare=[{"name": "now"}],
        workloads=[
            steps("web", ("0s", 1), start="5s"),
            {"name": "mail", "pod": {}, "jobs": {"rate": "40/h"}},
        ],
        timeline=[
            {"at": "1s", "soldOut": ["*/*/spot"]},
            {"at": "1s", "scale": {"target": "Deployment/web", "replicas": 2}, "for": "1m"},
            {"at": "1s", "expect": [{"path": "atEnd.running", "equals": 1}]},
        ],
    )

    assert [
        "prices",
        "interruptions",
        "compare",
        "machines",
        "controlPlane",
        "workloads[0].start",
        "workloads[1].jobs",
        "timeline[0].soldOut",
        "timeline[1].for",
    ] == undriven(wanted)


@pytest.mark.parametrize(
    "path", sorted(Path(fidelity.SCENARIO.parent).glob("perf-*.yaml")), ids=lambda p: p.stem
)
def test_the_standard_scenarios_about_speed_can_be_driven(path: Path) -> None:
    assert fidelity.read(path, "15m").until == 900.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--scenario", str(fidelity.SCENARIO)],
            "perf-basic.yaml lasts 24 min, and real runs at most 15: say --until 15m",
        ),
        (["--until", "soon"], "--until: 'soon' is not a length of time such as 9m"),
        (["--scenario", "missing.yaml"], "No such file or directory"),
        (
            ["--scenario", str(fidelity.SCENARIO.parent / "storm.yaml"), "--until", "5m"],
            "faults: in real time only what users do through the API can be driven",
        ),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fidelity, "obstacle", lambda: None)
    monkeypatch.setattr(sys, "argv", ["fidelity", *arguments])

    assert fidelity.main() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert said in line


def test_a_smoke_run_without_a_control_plane_says_so_and_is_no_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = dataclasses.make_dataclass("Absent", ["name"])
    monkeypatch.setattr(fidelity, "missing", lambda: iter([absent("etcd")]))
    monkeypatch.setattr(sys, "argv", ["fidelity", "--smoke"])

    assert fidelity.main() == 0
    told = "SKIPPED: nothing was compared; etcd not built, see `make control-plane`\n"
    assert told == capsys.readouterr().err

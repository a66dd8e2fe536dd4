"""A scenario is read whole before it is run, and everything wrong with it is said at once."""

import copy
import random
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from helpers.cluster_texts import POOL_TEXT
from helpers.commands import run
from karpenter.manifests.reader import read
from karpenter.simulate.scenario.reader import Loaded, Options, ScenarioError, is_scenario, load
from karpenter.simulate.scenario.schema import findings, schema

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "examples" / "scenarios"
EXAMPLES = [*sorted(FOLDER.glob("*.yaml")), *sorted(FOLDER.glob("traces/*.yaml"))]
HEAD = """\
apiVersion: simulate.karpenter.sh/v1
kind: Scenario
metadata: {name: storm}
until: 24h
"""
OUTSIDE = "is outside the folder of the scenario; --allow-outside lets it be read"
TOO_MANY = "exist at once, and 100,000 are the most; --large allows more"
WEB = "- {name: web, pod: {cpu: 500m}, steps: [{at: 0s, replicas: 3}]}\n"
POOL = f"---\n{POOL_TEXT}      requirements: []\n"


def loaded(text: str, folder: Path = Path(), **options: Any) -> Loaded:
    return load("storm.yaml", text.encode(), folder, Options(**options))


def problems(text: str, folder: Path = Path(), **options: Any) -> list[str]:
    with pytest.raises(ScenarioError) as error:
        loaded(text, folder, **options)
    return error.value.problems


def test_a_scenario_is_read_with_all_that_stands_beside_it(tmp_path: Path) -> None:
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools" / "a.yaml").write_text(POOL.replace("default}\nspec", "other}\nspec"))
    found = loaded(f"{HEAD}include: [pools/*.yaml]\nworkloads:\n{WEB}{POOL}", tmp_path)

    assert ["default", "other"] == [obj["metadata"]["name"] for obj in found.objects]
    assert (86_400.0, 1, ()) == (found.until, found.seed, found.warnings)
    assert ["scenario"] == [variant.name for variant in found.variants]


@pytest.mark.case("SIM-5")
def test_an_unknown_field_is_named_with_the_one_that_was_meant() -> None:
    text = f"{HEAD}untill: 3h\n"

    assert ["storm.yaml:5: untill: there is no such field; did you mean until?"] == problems(text)


@pytest.mark.case("SIM-6")
def test_a_step_does_one_thing_and_a_workload_has_one_generator() -> None:
    step = "- {at: 1h, scale: {target: Deployment/web, replicas: 2}, mark: x}\n"
    two = "- {name: b, pod: {cpu: 1}, jobs: {rate: 1/h}, cron: {schedule: '* * * * *'}}\n"

    assert [
        "storm.yaml:7: workloads[1]: has jobs and cron; a workload has one generator",
        "storm.yaml:9: timeline[0]: has scale and mark; a step does one thing",
    ] == problems(f"{HEAD}workloads:\n{WEB}{two}timeline:\n{step}")


@pytest.mark.case("SIM-7")
def test_everything_wrong_is_said_in_one_run() -> None:
    text = (
        f"{HEAD}machines: {{boot: {{lognormal: {{p50: 60s, p95: 30s}}}}}}\n"
        "timeline:\n- {at: 25h, mark: late}\n"
        "workloads:\n- {name: a, pod: {cpu: 1}, diurnal: {low: 1, high: 2, noise: 120%}}\n"
    )

    assert [
        "storm.yaml:5: machines.boot.lognormal.p95: the 95th percentile 30s is below the median 60s",
        "storm.yaml:7: timeline[0].at: 25h is not before the end of the scenario at 24h",
        "storm.yaml:9: workloads[0].diurnal.noise: 120% is more than 100%",
    ] == problems(text)


def test_what_is_wrong_with_the_structure_does_not_hide_what_is_wrong_with_the_rest() -> None:
    text = (
        f"{HEAD}workloads:\n- {{name: a, pod: {{cpu: x}}, steps: [{{at: 0s, replicas: 1}}]}}\n"
        "timeline:\n- {at: 1h}\n- {at: 25h, mark: late}\n"
    )
    first, second, third = problems(text)

    assert "workloads[0].pod.cpu: 'x' is not an amount such as 500m or 1Gi" in first
    assert "timeline[0]: has none of apply, delete" in second
    assert "storm.yaml:9: timeline[1].at: 25h is not before" in third


@pytest.mark.case("SIM-8")
def test_no_file_outside_the_folder_is_read_without_being_asked(tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text(POOL)
    folder = tmp_path / "scenarios"
    folder.mkdir()
    text = f"{HEAD}include: [../secret.yaml]\n"
    (folder / "link.yaml").symlink_to(tmp_path / "secret.yaml")

    assert [
        f"storm.yaml:5: include[0]: ../secret.yaml {OUTSIDE}",
    ] == problems(text, folder)
    assert "is outside the folder" in problems(f"{HEAD}include: ['../*.yaml']\n", folder)[0]
    assert "is outside the folder" in problems(f"{HEAD}include: [link.yaml]\n", folder)[0]
    assert 1 == len(loaded(text, folder, allow_outside=True).objects)


@pytest.mark.case("SIM-9")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_reader_and_schema_refuse_the_same(path: Path) -> None:
    validator = jsonschema_rs.Draft202012Validator(schema())
    documents = [each for each in read(path.read_bytes(), path.name) if is_scenario(each)]
    rng = random.Random(path.stem)

    assert [] == findings(documents[0].data)
    for _ in range(200):
        mutant = _mutated(copy.deepcopy(documents[0].data), rng)
        assert validator.is_valid(mutant) == (not findings(mutant)), mutant


def _mutated(document: Any, rng: random.Random) -> Any:
    """The document with one value changed, removed, renamed or added somewhere."""
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        keys = value.keys() if isinstance(value, dict) else range(len(value))
        for key in list(keys):
            places.append((value, key))
            if isinstance(value[key], dict | list):
                walk(value[key])

    walk(document)
    holder, key = rng.choice(places)
    match rng.randrange(5):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[f"{key}x"] = holder.pop(key)
        case 2 if isinstance(holder, dict):
            holder["jobs"] = {"rate": "1/h"}
        case _:
            other: list[Any] = [0, -1, 2.5, "", "x", "90s", "10%", True, None, [], {}, [{}]]
            holder[key] = rng.choice(other)
    return document


@pytest.mark.case("SIM-10")
def test_a_pool_is_judged_as_a_plan_judges_it(tmp_path: Path) -> None:
    pool = POOL.removeprefix("---\n").replace(
        "spec:\n  template", "spec:\n  weight: 1000\n  template", 1
    )
    (tmp_path / "pool.yaml").write_text(pool)
    (text,) = problems(f"{HEAD}include: [pool.yaml]\n", tmp_path)
    (planned, *_) = run("plan", str(tmp_path / "pool.yaml")).errors

    assert planned.partition("pool.yaml")[2] == text.partition("pool.yaml")[2]
    assert "NodePool/default spec.weight: Invalid value: 1000" in text


def test_names_that_nobody_has_are_named_with_the_nearest() -> None:
    text = (
        f"{HEAD}workloads:\n{WEB}- {{name: b, target: Deployment/wep, steps: [{{at: 0s, replicas: 1}}]}}\n"
        "timeline:\n- {at: 1h, scale: {target: Deployment/wbe, replicas: 1}}\n"
        "- {at: 1h, interrupt: {pool: defualt}}\n- {at: 1h, mark: x, in: [nwo]}\n"
        "compare: [{name: now}]\nexpect: [{path: nodes.most, in: nwo, max: 1}]\n"
        f"settings: {{PACKNG: cheapest}}\n{POOL}"
    )

    assert [
        "workloads[1].target: no Deployment is called wep; did you mean web?",
        "timeline[0].scale: no Deployment is called wbe; did you mean web?",
        "timeline[1].interrupt.pool: no NodePool is called defualt; did you mean default?",
        "timeline[2].in: no variant is called nwo; did you mean now?",
        "expect[0].in: no variant is called nwo; did you mean now?",
        "settings.PACKNG: no setting is called PACKNG; did you mean PACKING?",
    ] == [problem.partition(": ")[2] for problem in problems(text)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("timeline:\n- {mark: x}\n", "timeline[0]: needs either at or every, which say when"),
        ("timeline:\n- {at: 1h, mark: x, for: 5m}\n", "timeline[0].for: mark cannot be undone"),
        ("timeline:\n- {at: 1h, mark: x, notice: 5m}\n", "notice: goes with interrupt only"),
        ("timeline:\n- {at: 1h, soldOut: ['q-*/*/*']}\n", "the cloud sells nothing that q-*/*/*"),
        ("timeline:\n- {at: 1h, zoneDown: mars}\n", "the cloud sells nothing that */mars/* means"),
        ("workloads:\n- {name: a, steps: [{at: 0s, replicas: 1}]}\n", "has neither pod nor"),
        (f"workloads:\n{WEB}{WEB}", "there are two workloads called web"),
        (
            "workloads:\n- {name: a, pod: {}, cron: {schedule: '61 * * * *'}}\n",
            "workloads[0].cron.schedule",
        ),
        ("workloads:\n- {name: a, pod: {}, jobs: {}}\n", "has neither rate nor bursts"),
        ("warmup: 25h\n", "warmup: 25h is not before the end at 24h"),
        ("expect: [{path: nodes.most}]\n", "expect[0]: says no bound"),
        ("expect: [{path: nodes.most, atMost: 1}]\n", "go with than"),
        (
            "timeline:\n- {at: 1h, expect: [{path: nodes.most}]}\n",
            "timeline[0].expect[0]: says no bound; give min, max or equals",
        ),
        (
            "timeline:\n- {at: 1h, expect: [{path: nodes.most, than: x, atMost: 1}]}\n",
            "compares variants, which a step cannot",
        ),
        (
            "timeline:\n- {at: 1h, expect: [{path: nodes.most, in: x, max: 1}]}\n",
            "expect[0].in: belongs to the step, beside expect",
        ),
        ("timeline:\n- {at: 1h, faults: {lost: 120%}}\n", "a percentage of at most 100%"),
        (
            "timeline:\n- {at: 1h, for: 1m, expect: [{path: nodes.most, max: 1}]}\n",
            "cannot be undone",
        ),
        ("include: [nothing.yaml]\n", "include[0]: nothing.yaml: "),
        ("compare: [{name: a, remove: [NodePool/x]}]\n", "a: there is no NodePool/x to change"),
        ("seed: 1\n---\nkind: Scenario\n", "2 documents of kind Scenario; exactly one is needed"),
        ("provider: {instanceTypes: types.json}\n", "provider.instanceTypes: types.json"),
        ("start: yesterday\n", "is not a time in UTC such as 2030-01-07T00:00:00Z"),
        ("start: 2030-02-30T00:00:00Z\n", "start: '2030-02-30T00:00:00Z' is not a time that"),
        ("start: 9999-12-31T00:00:00Z\n", "is not within the years 1970 and 2999"),
        ("start: 2999-12-31T12:00:00Z\n", "until: 24h after 2999-12-31T12:00:00Z is later than"),
        ("report: {every: 0s}\n", "report.every: 0s is less than a second"),
        (
            f"workloads:\n{WEB}- {{name: b, rollout: {{target: Deployment/web, every: 0s}}}}\n",
            "workloads[1].rollout.every: 0s is less than a second",
        ),
        ("timeline:\n- {every: 1m, from: 2h, to: 1h, mark: x}\n", "to: 1h is not after 2h"),
        (
            "workloads:\n- {name: a, pod: {cpu: 1e9999}, steps: [{at: 0s, replicas: 1}]}\n",
            "workloads[0].pod.cpu: '1e9999' is larger than any resource",
        ),
        (
            "machines: {images: {bandwidth: 1e9999, sizes: {}}}\n",
            "machines.images.bandwidth: '1e9999' is larger than any resource",
        ),
        (
            "workloads:\n- {name: a, pod: {labels: {'a b': c}}, steps: [{at: 0s, replicas: 1}]}\n",
            "workloads[0].pod: Deployment/a spec.template.metadata.labels: Invalid value",
        ),
        (
            "workloads:\n- {name: a, template: {spec: {containers: [{nane: x}]}}, jobs: {rate: 1/h}}\n",
            "workloads[0].template: Deployment/a",
        ),
        (
            f"workloads:\n{WEB[:-2]}, pdb: {{minAvailable: x}}}}\n",
            "workloads[0].pdb: PodDisruptionBudget/web spec.minAvailable: Invalid value",
        ),
        (
            "expect: [{path: cost.dolarHours, max: 1}]\n",
            "expect[0].path: cost.dolarHours is no figure of a report; did you mean cost.dollarHours?",
        ),
        ("expect: [{path: cost, max: 1}]\n", "cost is no figure by itself; there are cost.doll"),
        ("expect: [{path: cost.byPool, max: 1}]\n", "add a name to it, as in cost.byPool.NAME"),
        ("expect: [{path: pods.unscheduled, max: 1}]\n", "pods.unscheduled is a list, and not a"),
        (
            "timeline:\n- {at: 1h, expect: [{path: atEnd.pendin, max: 1}]}\n",
            "timeline[0].expect[0].path: atEnd.pendin is no figure of a report",
        ),
    ],
)
def test_a_sentence_says_what_is_wrong(text: str, sentence: str, tmp_path: Path) -> None:
    assert sentence in "\n".join(problems(HEAD + text, tmp_path))


def test_what_is_no_scenario_is_said_to_be_none() -> None:
    assert ["storm.yaml:1: no document of kind Scenario; exactly one is needed"] == problems(POOL)
    assert problems("a: [")[0].startswith("storm.yaml:")


def test_a_bad_row_is_named_by_file_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text("at,lasts,cpu_milli\n0,60,500\n5,60,n/a\n")
    rows = (
        "{file: pods.csv, time: {column: at, unit: s}, duration: {column: lasts},"
        " requests: {cpu: {column: %s, unit: m}}}"
    )
    text = f"{HEAD}workloads:\n- {{name: a, csv: {rows}}}\n"

    assert ["pods.csv:3: cpu_milli: 'n/a' is not a number"] == problems(
        text % "cpu_milli", tmp_path
    )
    assert ["pods.csv:1: there is no column cpu_mili; did you mean cpu_milli?"] == problems(
        text % "cpu_mili", tmp_path
    )
    skipping = (text % "cpu_milli").replace("}}}}\n", "}}, onBadRow: skip}}\n")
    (warning,) = loaded(skipping, tmp_path).warnings
    assert "1 bad rows are skipped; the first: pods.csv:3" in warning


def test_too_many_pods_at_once_are_refused_unless_they_are_allowed() -> None:
    many = (
        "- {name: web, pod: {cpu: 1m}, steps: [{at: 0s, replicas: 60000}, {at: 1h, replicas: 0}]}\n"
    )
    text = f"{HEAD}workloads:\n{many}{many.replace('web', 'api')}"

    assert [
        f"storm.yaml:5: workloads: up to 120,000 pods {TOO_MANY}",
    ] == problems(text)
    assert loaded(text, is_large=True)
    assert loaded(f"{HEAD}workloads:\n{many}")


def test_the_command_line_overrides_the_file_for_every_variant() -> None:
    text = f"{HEAD}compare: [{{name: a}}, {{name: b, settings: {{PACKING: karpenter}}}}]\n"
    found = loaded(text, seed=7, until="2h", settings={"PACKING": "cheapest"})

    assert (7, 7200.0) == (found.seed, found.until)
    assert [{"PACKING": "cheapest"}] * 2 == [variant.settings for variant in found.variants]


def test_a_scenario_can_be_ended_before_all_of_it_has_happened() -> None:
    text = f"{HEAD}warmup: 30m\ntimeline: [{{at: 20h, mark: x}}]\n"

    assert 7200.0 == loaded(text, until="2h").until
    assert ["--until '2 hours' is not a length of time such as 90s, 1h30m or 7d"] == problems(
        text, until="2 hours"
    )
    assert ["--until 20m: the warm-up of storm.yaml takes 30m"] == problems(text, until="20m")


def test_a_matrix_makes_all_pairs() -> None:
    text = (
        f"{HEAD}matrix:\n  policy: [{{name: full}}, {{name: best, settings: {{PACKING: cheapest}}}}]\n"
        "  wait: [{name: short}, {name: long, settings: {BATCH_IDLE_DURATION: 5s}}]\n"
    )
    found = loaded(text)

    assert ["full-short", "full-long", "best-short", "best-long"] == [
        variant.name for variant in found.variants
    ]
    assert {"PACKING": "cheapest", "BATCH_IDLE_DURATION": "5s"} == found.variants[3].settings


def test_a_patch_of_a_variant_is_judged_as_well() -> None:
    patch = "{target: NodePool/default, merge: {spec: {weight: 1000}}}"
    (problem,) = problems(f"{HEAD}compare: [{{name: a, patch: [{patch}]}}]\n{POOL}")

    assert problem.startswith("storm.yaml:5: compare[0]: a: NodePool/default spec.weight: ")


@pytest.mark.parametrize("faults", ["5", "[storm]"])
def test_faults_of_another_kind_are_named_by_what_is_expected(faults: str) -> None:
    (problem,) = problems(f"{HEAD}faults: {faults}\n")

    assert "faults: expected storm or a group of fields" in problem


def test_a_field_that_pools_do_not_have_is_pointed_out_wherever_it_stands() -> None:
    patch = "{target: NodePool/default, merge: {spec: {disruptoin: {}}}}"
    found = loaded(
        f"{HEAD}compare: [{{name: a, patch: [{patch}]}}]\ntimeline:\n- {{at: 1h, patch: [{patch}]}}\n"
        f"{POOL}  wieght: 5\n"
    )

    told = 'unknown field "spec.disruptoin"; did you mean "disruption"?'
    other = 'unknown field "spec.wieght"; did you mean "weight"?'
    assert [
        f"storm.yaml:17: NodePool/default spec.wieght: {other}",
        f"storm.yaml:5: compare[0]: a: NodePool/default spec.disruptoin: {told}",
        f"storm.yaml:7: timeline[0].patch[0]: NodePool/default spec.disruptoin: {told}",
    ] == list(found.warnings)


def test_an_end_that_no_calendar_has_is_refused_on_the_command_line_too() -> None:
    assert [
        "--until 999999d: after 2030-01-07T00:00:00Z that is later than the year 2999; let it end earlier"
    ] == problems(HEAD, until="999999d")


def test_a_factor_of_any_size_is_above_nothing() -> None:
    hpa = "hpa: {max: 2, perPod: 1.0e+300, metric: {points: [{at: 0s, value: 1}]}}"

    assert not loaded(f"{HEAD}workloads:\n- {{name: a, pod: {{}}, {hpa}}}\n").warnings


@pytest.mark.parametrize(
    "varied", ["compare: [{A}, {B}]\n", "matrix: {x: [{A}, {B}]}\n"], ids=["compare", "matrix"]
)
def test_a_setting_of_the_command_line_stands_above_those_of_variants(varied: str) -> None:
    text = varied.replace("{A}", "{name: a, settings: {PACKING: karpenter}}")
    text = text.replace("{B}", "{name: b}")
    found = loaded(f"{HEAD}{text}", settings={"PACKING": "cheapest"})

    assert ["cheapest", "cheapest"] == [each.settings["PACKING"] for each in found.variants]

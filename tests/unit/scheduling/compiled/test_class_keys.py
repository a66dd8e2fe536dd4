"""The keys of pods' classes that are kept between solves: right, and no more of them than needed."""

import msgspec
import pytest

from helpers.builders import pod, selector, spread
from helpers.solver import question
from karpenter.api.pods import Pod
from karpenter.scheduling.compiled import class_keys
from karpenter.scheduling.compiled.class_keys import ClassKeys, Spread
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.compiled.pod_classes import class_key
from karpenter.scheduling.compiled.problem import CompiledProblem


def _asked(pods: list[Pod]) -> list[tuple[Pod, Spread, tuple[()]]]:
    return [(each, each.spec.topology_spread_constraints, ()) for each in pods]


def test_a_key_is_worked_out_once_for_each_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    worked_out: list[str] = []

    def noted(each: Pod, *rest: object) -> bytes:
        worked_out.append(each.metadata.name)
        return class_key(each, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(class_keys, "class_key", noted)
    keys, pods = ClassKeys(), [pod(f"p{n}", cpu=f"{n}") for n in range(1000)]

    first = keys.of(_asked(pods))
    keys.of([])  # solves without pods come between those of all
    keys.of(_asked(pods[:3]))

    assert first == keys.of(_asked(pods)) == [class_key(each, ()) for each in pods]
    assert [each.metadata.name for each in pods] == worked_out


def test_a_pod_that_changes_gets_another_key() -> None:
    keys, before = ClassKeys(), pod("p", cpu="1")
    after = msgspec.structs.replace(before, spec=pod("p", cpu="2").spec)

    assert keys.of(_asked([before])) != keys.of(_asked([after]))
    assert keys.of(_asked([after])) == [class_key(after, ())]


def test_a_key_depends_on_the_spread_and_the_claims_that_hold_for_a_pod() -> None:
    keys, each = ClassKeys(), pod("p")
    default = (spread(selector=selector({"app": "web"})),)
    claims = (("gpu", b"1"),)

    assert keys.of([(each, (), ())]) == [class_key(each, ())]
    assert keys.of([(each, default, ())]) == [class_key(each, default)]
    assert keys.of([(each, default, claims)]) == [class_key(each, default, claims)]
    assert keys.of([(each, (), ())]) == [class_key(each, ())]


def test_equal_keys_are_one_object() -> None:
    keys = ClassKeys()

    one, other = keys.of(_asked([pod("a", cpu="1"), pod("b", cpu="1")]))

    assert one is other


def test_pods_that_are_gone_are_forgotten() -> None:
    keys, stays = ClassKeys(), pod("stays")
    keys.of(_asked([stays, *(pod(f"p{n}", cpu=f"{n}") for n in range(300))]))

    keys.keep([stays, pod("new")])

    assert 1 == len(keys) == len(keys._same)
    assert [class_key(stays, ())] == keys.of(_asked([stays]))


def test_a_solve_keeps_the_keys_of_no_more_pods_than_there_are() -> None:
    compiler = Compiler()

    for turn in range(3):
        pods = [pod(f"p{turn}-{n}", cpu=f"{n + 1}m") for n in range(100)]
        CompiledProblem(question(pods), compiler)

    assert len(compiler.class_keys) <= 200
    CompiledProblem(question([]), compiler)
    assert 0 == len(compiler.class_keys)

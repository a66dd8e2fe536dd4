"""Pods that are alike are worked out once, and only pods that are alike."""

from collections.abc import Sequence
from typing import Unpack

import msgspec
import pytest

from helpers.builders import APP_T, PodOptions, pod, spread
from helpers.solver import question
from karpenter.api.pods import Pod, Volume
from karpenter.scheduling.compiled.problem import CompiledProblem


def mounting(name: str, volume: str) -> Pod:
    """A pod with a volume that needs no claim, like the token every pod is given."""
    plain = pod(name)
    volumes = (Volume(name=volume),)
    return msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, volumes=volumes))


def two(first: PodOptions, second: PodOptions) -> list[Pod]:
    return [pod("one", **first), pod("two", **second)]


def alike(**options: Unpack[PodOptions]) -> list[Pod]:
    return two(options, options)


@pytest.mark.parametrize(
    ("wanted", "classes"),
    [
        pytest.param(alike(cpu="1", labels=APP_T, spread=[spread()]), 1, id="equal in everything"),
        pytest.param(
            [mounting("one", "token-x7k2p"), mounting("two", "token-9qwzm")],
            1,
            id="volumes that need no claim differ in name",
        ),
        pytest.param(alike(claims=["shared"]), 1, id="one claim for both"),
        pytest.param(two({"claims": ["a"]}, {"claims": ["b"]}), 2, id="a claim for each"),
        pytest.param(alike(ephemeral=["standard"]), 2, id="claims made for each pod by name"),
        pytest.param(two({"cpu": "1"}, {"cpu": "2"}), 2, id="another size"),
        pytest.param(two({}, {"labels": APP_T}), 2, id="other labels"),
        pytest.param(two({}, {"namespace": "other"}), 2, id="another namespace"),
        pytest.param(two({}, {"host_ports": [80]}), 2, id="a host port"),
    ],
)
def test_how_many_classes_two_pods_are(wanted: Sequence[Pod], classes: int) -> None:
    world = CompiledProblem(question(wanted))

    assert classes == len(world.classes)

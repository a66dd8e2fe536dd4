"""Providers are found by name, wherever they come from, or refused in one sentence."""

import random
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from helpers.clusters import in_virtual_time
from karpenter.clock import running_clock
from karpenter.cloud.kwok.catalogue import built_in
from karpenter.cloud.kwok.provider import KwokProvider, make_provider
from karpenter.cloud.registry import GROUP, ProviderContext, ProviderError, load_provider
from karpenter.settings import Settings
from unit.cloud.kwok.kwok_cloud import kwok_cloud

KWOK = EntryPoint("kwok", "karpenter.cloud.kwok.provider:make_provider", GROUP)
REPOSITORY = Path(__file__).parents[3]


def other(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


async def made(environment: dict[str, str]) -> KwokProvider:
    async with kwok_cloud(is_leading=False) as cloud:
        factory = load_provider("kwok", [KWOK])
        context = ProviderContext(
            cloud.kube, running_clock(), Settings(), environment, random.Random(1)
        )
        provider = factory(context)
    assert isinstance(provider, KwokProvider)
    return provider


def test_a_provider_is_found_by_its_name() -> None:
    assert make_provider is load_provider("kwok", [other("aws", "nowhere:x"), KWOK])


def test_the_simulated_provider_is_registered_as_any_other_package_would() -> None:
    text = (REPOSITORY / "pyproject.toml").read_text("utf-8")

    assert f'[project.entry-points."{GROUP}"]' in text
    assert f'{KWOK.name} = "{KWOK.value}"' in text


@pytest.mark.parametrize(
    ("name", "installed", "sentence"),
    [
        pytest.param(
            "kwokk",
            [KWOK, other("aws", "x:y")],
            "no provider is called kwokk; known are aws, kwok; did you mean kwok?",
            id="a misspelt name is guessed",
        ),
        pytest.param(
            "azure",
            [KWOK],
            "no provider is called azure; known are kwok",
            id="an unknown name lists those that are known",
        ),
        pytest.param(
            "kwok",
            [],
            "no provider is called kwok, and no package brings any; install one",
            id="without any package there is nothing to choose from",
        ),
        pytest.param(
            "mine",
            [other("mine", "no_such_package:make")],
            "provider mine cannot be loaded from no_such_package:make: ModuleNotFoundError:"
            " No module named 'no_such_package'",
            id="a package that cannot be imported",
        ),
        pytest.param(
            "mine",
            [other("mine", "karpenter.cloud.registry:make_it")],
            "provider mine cannot be loaded from karpenter.cloud.registry:make_it:"
            " AttributeError: module 'karpenter.cloud.registry' has no attribute 'make_it'",
            id="a package without the function",
        ),
        pytest.param(
            "mine",
            [other("mine", "karpenter.cloud.registry:GROUP")],
            "provider mine cannot be loaded: karpenter.cloud.registry:GROUP is not a function"
            " that makes a provider",
            id="an entry point that is no function",
        ),
        pytest.param(
            "mine",
            [other("mine", "a:make"), other("mine", "b:make")],
            "two packages bring a provider called mine, a:make and b:make; uninstall one of them",
            id="two packages with the same name",
        ),
    ],
)
def test_refusal(name: str, installed: list[EntryPoint], sentence: str) -> None:
    with pytest.raises(ProviderError) as raised:
        load_provider(name, installed)

    assert sentence == str(raised.value)


def test_a_package_that_breaks_while_it_is_imported_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_provider.py").write_text("raise RuntimeError('first\\nsecond')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_provider", raising=False)

    with pytest.raises(ProviderError, match=r"RuntimeError: first second$"):
        load_provider("broken", [other("broken", "broken_provider:make")])


@in_virtual_time
async def test_kwok_sells_its_own_catalogue_unless_told_otherwise() -> None:
    provider = await made({"INSTANCE_TYPES_FILE_PATH": ""})

    assert built_in() is provider.faults.show(built_in())
    assert "kwok" == provider.facts.name


def test_kwok_reads_the_instance_types_file_the_environment_names(tmp_path: Path) -> None:
    file = tmp_path / "types.json"
    file.write_text(
        '[{"name": "g5.4xlarge", "architecture": "amd64", "operatingSystems": ["linux"],'
        ' "resources": {"cpu": "16", "memory": "64Gi"},'
        ' "offerings": [{"zone": "z1", "capacityType": "spot", "price": 1}]}]'
    )

    @in_virtual_time
    async def run() -> None:
        from helpers.builders import node_pool

        provider = await made({"INSTANCE_TYPES_FILE_PATH": str(file)})
        types = await provider.instance_types(node_pool("any"))
        assert ["g5.4xlarge"] == [kind.name for kind in types]

    run()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(None, "no such file or directory", id="a file that does not exist"),
        pytest.param("[", "the file is not JSON", id="a file that is not JSON"),
        pytest.param("[]", "the list is empty", id="a file without types"),
    ],
)
def test_a_catalogue_that_cannot_be_used_stops_the_start(
    tmp_path: Path, content: str | None, sentence: str
) -> None:
    file = tmp_path / "types.json"
    if content is not None:
        file.write_text(content)

    @in_virtual_time
    async def run() -> None:
        with pytest.raises(ProviderError, match=sentence) as raised:
            await made({"INSTANCE_TYPES_FILE_PATH": str(file)})
        assert str(raised.value).startswith(str(file))

    run()


@in_virtual_time
async def test_kwok_can_be_started_with_offerings_sold_out() -> None:
    provider = await made({"KWOK_SOLD_OUT": "*/*/spot"})
    types = provider.faults.show(built_in())

    assert {"on-demand"} == {
        offering.capacity_type
        for kind in types
        for offering in kind.offerings
        if offering.available
    }


@in_virtual_time
async def test_a_list_of_sold_out_offerings_that_cannot_be_read_stops_the_start() -> None:
    with pytest.raises(ProviderError, match=r"^KWOK_SOLD_OUT: 'spot' names no offerings"):
        await made({"KWOK_SOLD_OUT": "spot"})

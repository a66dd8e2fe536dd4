"""The companion goes on without prices where only the cloud cannot be asked."""

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
import typer

from helpers.cluster_texts import POOL_TEXT
from karpenter.dashboard.homes import companion
from karpenter.dashboard.homes.companion import CompanionOptions
from karpenter.dashboard.server.entrance import Entrance
from karpenter.inquiry.question import Source


def options(*files: str) -> CompanionOptions:
    return CompanionOptions(Source(files), Entrance(), environment={"BROWSER": "none"})


def refuse(code: int, monkeypatch: pytest.MonkeyPatch, *, is_readable: bool) -> None:
    """Have a cluster that cannot be asked about, and that can be read or not."""

    def question(*_: object, **__: object) -> NoReturn:
        raise typer.Exit(code)

    async def readable(_: object) -> bool:
        return is_readable

    monkeypatch.setattr(companion, "question", question)
    monkeypatch.setattr(companion, "_is_readable", readable)


def test_a_cluster_that_can_be_read_is_shown_without_prices(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refuse(1, monkeypatch, is_readable=True)

    assert companion._asked(options()) is None
    assert "without prices" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "is_readable", "files"),
    [
        pytest.param(1, False, (), id="a cluster that cannot be read"),
        pytest.param(2, True, (), id="wrong usage"),
        pytest.param(1, True, ("examples/plan",), id="manifests"),
    ],
)
def test_everything_else_ends_the_command(
    code: int, is_readable: bool, files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(code, monkeypatch, is_readable=is_readable)

    with pytest.raises(typer.Exit) as ended:
        companion._asked(options(*files))
    assert code == ended.value.exit_code


def test_no_browser_is_opened_where_none_is_wanted() -> None:
    assert not companion._opens_browser(options())


def test_what_is_said_of_manifests_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pool = tmp_path / "pool.yaml"
    pool.write_text(f"{POOL_TEXT}      requirements: []\n  wieght: 5\n")
    made: list[object] = []

    async def served(_: object, __: object, build: Callable[[], object]) -> None:
        made.append(build())

    monkeypatch.setattr(companion, "_until_stopped", served)
    companion.run(options(str(pool)))

    assert 1 == len(made)
    assert 1 == capsys.readouterr().err.count('unknown field "spec.wieght"')

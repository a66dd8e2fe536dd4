"""The companion goes on without prices where only the cloud cannot be asked."""

from typing import NoReturn

import pytest
import typer

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

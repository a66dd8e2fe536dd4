"""Where a dashboard may be served, and what has to be said for it first."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from karpenter.cli.app import app
from karpenter.dashboard.server.entrance import Entrance, EntranceError, is_loopback

FILES = "examples/plan"
LONG = "a-token-that-somebody-chose-with-care"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{LONG}\n")
    return path


def test_on_loopback_nothing_has_to_be_said() -> None:
    place = Entrance().place()

    assert ("127.0.0.1", 8765, True, "") == (place.host, place.port, place.takes_next, place.token)
    assert "" == Entrance().warning


def test_a_port_that_is_chosen_is_the_only_one() -> None:
    place = Entrance(port=9000).place()

    assert (9000, False) == (place.port, place.takes_next)


@pytest.mark.case("DASH-28")
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "--token-file"),
        (["--token-file", "TOKEN"], "--allow-host"),
        (["--allow-host", "nodes.example"], "--token-file"),
    ],
)
def test_beyond_this_machine_a_token_and_a_name_are_needed(
    more: list[str], said: str, token: Path
) -> None:
    given = [str(token) if each == "TOKEN" else each for each in more]
    ended = CliRunner().invoke(app, ["dashboard", FILES, "--host", "0.0.0.0", *given])

    assert 2 == ended.exit_code
    assert 1 == len(ended.stderr.splitlines())
    assert said in ended.stderr


@pytest.mark.case("DASH-28")
def test_with_both_it_may_be_served_and_plain_http_is_warned_of(token: Path) -> None:
    entrance = Entrance("0.0.0.0", None, ("nodes.example",), token)
    place = entrance.place()

    assert (LONG, ("nodes.example",)) == (place.token, place.hosts)
    assert "plain HTTP" in entrance.warning


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"short", "5 characters"),
        (b"a" * 31, "31 characters"),
        (b"a" * 5000, "5000 characters"),
        (b"two words that are long enough, really", "ASCII"),
        ("ä".encode() * 40, "ASCII"),
        (b"\xff" * 40, "no text"),
    ],
)
def test_a_token_that_is_none_is_refused(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)

    with pytest.raises(EntranceError, match=said):
        Entrance(token_file=path).place()


@pytest.mark.parametrize("name", ["https://nodes.example", "nodes.example:8765", "a b", "", "::1"])
def test_a_host_name_that_no_request_can_name_is_refused(name: str) -> None:
    with pytest.raises(EntranceError, match="write the name alone"):
        Entrance(hosts=("localhost", "nodes_1.example", "[::1]", name)).place()


@pytest.mark.parametrize("text", ["", " ", "shop,", "A B", "shop/web"])
def test_namespaces_that_are_none_are_refused_in_place_of_showing_all(text: str) -> None:
    ended = CliRunner().invoke(app, ["dashboard", FILES, "--port", "0", "--namespaces", text])

    assert 2 == ended.exit_code
    assert "is no namespace; name some, such as shop,payments" in ended.stderr


def test_a_file_that_is_no_certificate_is_told_from_one_that_cannot_be_read(token: Path) -> None:
    with pytest.raises(EntranceError, match="a certificate and its key in PEM format are expected"):
        Entrance(certificate=token, key=token).place()
    with pytest.raises(EntranceError, match="no such file"):
        Entrance(certificate=token.parent / "nothing", key=token).place()


def test_a_token_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(EntranceError, match=r"nothing: .*[Nn]o such file"):
        Entrance(token_file=tmp_path / "nothing").place()


def test_a_certificate_needs_its_key(tmp_path: Path, token: Path) -> None:
    with pytest.raises(EntranceError, match="--tls-key is missing"):
        Entrance(certificate=token).place()
    with pytest.raises(EntranceError, match="--tls-cert is missing"):
        Entrance(key=token).place()
    with pytest.raises(EntranceError, match="--tls-cert"):
        Entrance(certificate=token, key=token).place()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("nodes.example", False),
    ],
)
def test_loopback_is_known(host: str, expected: bool) -> None:
    assert expected == is_loopback(host)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--history", "a while"], "--history: 'a while' is no duration"),
        ([FILES, "--history-file", "x"], "--history-file applies to a live cluster"),
        (["-"], "name files instead of -"),
        ([FILES, "--context", "x"], "--context applies to a live cluster"),
        ([FILES, "--set", "NOVEL=1"], "NOVEL"),
    ],
)
def test_wrong_usage_ends_the_command_with_one_sentence(arguments: list[str], said: str) -> None:
    ended = CliRunner().invoke(app, ["dashboard", *arguments])

    assert 2 == ended.exit_code
    assert said in ended.stderr
    assert 1 == len(ended.stderr.splitlines())

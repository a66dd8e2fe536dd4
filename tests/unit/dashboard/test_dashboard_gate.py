"""Which requests get to a route, and which are turned away."""

import pytest

from karpenter.clock import SystemClock, run_virtual, running_clock
from karpenter.dashboard.gate import (
    FAILURES_SECONDS,
    HEADERS,
    MOST_FAILURES,
    Asked,
    Gate,
    new_token,
)

TOKEN = "right-token-right-token-right-token"
HOST = "127.0.0.1:8765"


def gate(**options: object) -> Gate:
    return Gate(TOKEN, SystemClock(), **options)  # type: ignore[arg-type]


def asked(
    target: str = "/api/v1/view",
    method: str = "GET",
    *,
    token: str = TOKEN,
    host: str = HOST,
    address: str = "127.0.0.1",
    **headers: str,
) -> Asked:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if token:
        given["karpenter-token"] = token
    return Asked(method, target, {"host": host, **given}, address)


def status(lock: Gate, request: Asked) -> int:
    turned = lock.turned_away(request)
    return 200 if turned is None else turned.status


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (HOST, 200),
        ("localhost:8765", 200),
        ("LOCALHOST", 200),
        ("[::1]:8765", 200),
        ("127.0.0.1", 200),
        ("evil.example", 421),
        ("evil.example:8765", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("127.0.0.2", 421),
        ("", 421),
        ("localhost:", 421),
        ("::1", 421),
        ("a@localhost", 421),
    ],
)
@pytest.mark.case("DASH-26")
def test_host_names(host: str, expected: int) -> None:
    assert status(gate(), asked(host=host)) == expected


@pytest.mark.case("DASH-26")
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"origin": f"http://{HOST}"}, 200),
        ({"origin": f"https://{HOST}"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"sec_fetch_site": "none"}, 200),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, 403),
    ],
)
def test_other_origins(headers: dict[str, str], expected: int) -> None:
    assert status(gate(), asked(**headers)) == expected


def test_links_lead_to_the_page_but_not_to_data() -> None:
    link = {
        "sec_fetch_site": "cross-site",
        "sec_fetch_mode": "navigate",
        "sec_fetch_dest": "document",
    }

    def turned() -> list[int]:
        lock = gate()
        return [
            status(lock, asked("/", token="", **link)),
            status(lock, asked("/api/v1/view", **link)),
            status(lock, asked("/", "POST", **link)),
            status(lock, asked("/", **{**link, "sec_fetch_dest": "iframe"})),
        ]

    assert turned() == [200, 403, 403, 403]


@pytest.mark.case("DASH-26")
@pytest.mark.parametrize(
    "target",
    [
        "/x/../api/v1/view",
        "/api/v1/view",
        "//api/v1/view",
        "/./api//v1/view",
        "/%61pi/v1/view",
        "/x/%2e%2e/api/v1/view",
        "/api",
        "/api/",
        f"http://{HOST}/api/v1/view",
    ],
)
def test_every_spelling_of_a_path_to_data_needs_the_token(target: str) -> None:
    def turned() -> list[int]:
        return [status(gate(), asked(target, token="")), status(gate(), asked(target))]

    assert turned() == [401, 200]


@pytest.mark.parametrize("target", ["/", "/healthz", "/assets/0123456789ab/app.js", "/apis"])
def test_other_paths_need_none(target: str) -> None:
    assert status(gate(), asked(target, token="")) == 200


def test_names_that_are_allowed() -> None:
    def turned() -> list[int]:
        lock = gate(hosts=["dash.example", "10.0.0.1:8443"])
        return [
            status(lock, asked(host="dash.example")),
            status(lock, asked(host="Dash.Example:8765")),
            status(lock, asked(host="10.0.0.1:8443")),
            status(lock, asked(host="10.0.0.1:1")),
            status(lock, asked(host="localhost:9")),
            # A proxy in front may speak HTTPS
            status(lock, asked(host="dash.example", origin="https://dash.example")),
            status(lock, asked(host="dash.example", origin="https://evil.example")),
        ]

    assert turned() == [200, 200, 200, 421, 200, 200, 403]


def test_with_tls_the_page_is_of_https() -> None:
    def turned() -> list[int]:
        lock = gate(has_tls=True)
        return [
            status(lock, asked(origin=f"https://{HOST}")),
            status(lock, asked(origin=f"http://{HOST}")),
        ]

    assert turned() == [200, 403]


@pytest.mark.case("DASH-27")
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 401),
        ({"karpenter_token": "wrong"}, 401),
        ({"karpenter_token": f"{TOKEN}x"}, 401),
        ({"karpenter_token": "ä\udcff"}, 401),
        ({"karpenter_token": TOKEN}, 200),
        ({"authorization": f"Bearer {TOKEN}"}, 200),
        ({"authorization": f"bearer  {TOKEN} "}, 200),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"authorization": TOKEN}, 401),
        ({"cookie": f"token={TOKEN}"}, 401),
    ],
)
def test_tokens(headers: dict[str, str], expected: int) -> None:
    assert status(gate(), asked(token="", **headers)) == expected


def test_a_token_in_the_query_does_not_count() -> None:
    target = f"/api/v1/view?token={TOKEN}"
    assert status(gate(), asked(target, token="")) == 401


@pytest.mark.case("DASH-27")
@pytest.mark.parametrize("is_guessable", [False, True])
def test_guessing_is_slowed_down(is_guessable: bool) -> None:
    async def tried() -> None:
        clock = running_clock()
        lock = Gate(TOKEN, clock, is_guessable=is_guessable)
        wrong = [status(lock, asked(token="wrong")) for _ in range(MOST_FAILURES)]
        assert wrong == [401] * MOST_FAILURES
        turned = lock.turned_away(asked(token="wrong"))
        assert turned is not None
        assert turned.status == 429
        assert turned.headers == {"Retry-After": "60"}
        # A token that somebody chose could be guessed further; a random one cannot
        assert status(lock, asked()) == (429 if is_guessable else 200)
        assert status(lock, asked(address="10.1.1.1")) == 200
        assert status(lock, asked(token="wrong", address="10.1.1.1")) == 401
        await clock.sleep(FAILURES_SECONDS)
        assert status(lock, asked()) == 200
        assert status(lock, asked(token="wrong")) == 401

    run_virtual(tried())


def test_failures_of_many_addresses_take_bounded_memory() -> None:
    def tried() -> int:
        lock = gate()
        for number in range(3000):
            lock.turned_away(asked(token="wrong", address=f"10.0.{number // 250}.{number % 250}"))
        return len(lock._failures)

    assert tried() == 1000


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("application/yaml", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data", 415),
        ("", 415),
    ],
)
def test_bodies_that_a_form_can_send_are_refused(content_type: str, expected: int) -> None:
    request = asked("/api/v1/what-if", "POST", content_type=content_type)
    assert status(gate(), request) == expected


def test_no_answer_names_the_token() -> None:
    def texts() -> str:
        lock = gate()
        said = []
        for request in (asked(token="secret-guess"), asked(host="x"), asked(origin="y")):
            turned = lock.turned_away(request)
            assert turned is not None
            said.append(f"{turned!r}")
        return " ".join(said)

    said = texts()
    assert TOKEN not in said
    assert "secret-guess" not in said


def test_tokens_are_long_and_different() -> None:
    assert len({new_token() for _ in range(10)}) == 10
    assert len(new_token()) >= 43  # 256 bits


def test_nothing_foreign_is_allowed_in_the_page() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in policy
    assert "*" not in policy

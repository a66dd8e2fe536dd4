"""The checker of the site finds dead links, dead places and foreign hosts."""

from pathlib import Path

import pytest

import docs_site


def site(folder: Path, **pages: str) -> Path:
    for name, body in pages.items():
        (folder / f"{name}.html").write_text(f"<html><body>{body}</body></html>", "utf-8")
    return folder


def test_a_sound_site_has_no_problems(tmp_path: Path) -> None:
    (tmp_path / "picture.svg").touch()
    built = site(
        tmp_path,
        index='<a href="other.html#here">o</a><a href="https://example.com">e</a><a href="#top">t</a>'
        '<h1 id="top">i</h1><img src="picture.svg">',
        other='<h2 id="here">here</h2><a href="./index.html">back</a>',
    )

    assert [] == list(docs_site.problems(built))


@pytest.mark.case("OPS-36")
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param('<a href="gone.html">g</a>', "leads to gone.html, which", id="page"),
        pytest.param('<a href="#gone">g</a>', "leads to #gone, and there is no", id="place"),
        pytest.param('<img src="gone.png">', "leads to gone.png, which", id="picture"),
        pytest.param(
            '<script src="https://example.com/a.js"></script>', "from another host", id="script"
        ),
        pytest.param(
            '<link rel="stylesheet" href="//example.com/a.css">', "another host", id="style"
        ),
    ],
)
def test_what_is_wrong_is_found(body: str, problem: str, tmp_path: Path) -> None:
    (found,) = docs_site.problems(site(tmp_path, index=body))

    assert found.startswith("index.html ")
    assert problem in found

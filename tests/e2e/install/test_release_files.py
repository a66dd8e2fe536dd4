"""A whole release, made from the commit that is checked out: checked as its page says, installed as a plugin."""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

import release
from helpers import pages
from helpers.helm import Helm
from helpers.pythons import need, plain_environment, wheelhouse
from karpenter import __version__
from releasing import krew, provenance, wheels
from unit.test_release import write_keys

pytestmark = pytest.mark.slow

URL = "https://downloads.example.com/karpenter"
PLAN = wheels.ROOT / "examples" / "plan"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_keys(tmp_path_factory.mktemp("keys"), ec.generate_private_key(ec.SECP256R1()))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, keys: tuple[Path, Path]) -> Path:
    """A release for this platform, signed."""
    platform = wheelhouse()
    folder = tmp_path_factory.mktemp("release") / "made"
    wanted = release.Wanted([platform], URL, key=keys[0], is_snapshot=True)
    assert __version__ == release.make(folder, wanted)
    return folder


def test_it_has_every_file_that_its_page_names(made: Path) -> None:
    platform = wheelhouse().name.replace("/", "-")
    page = (wheels.ROOT / "docs" / "verify.md").read_text("utf-8")
    named = {
        name.strip("` ").replace("VERSION", __version__).replace("PLATFORM", platform)
        for line in page.splitlines()
        if line.startswith("| `")
        for name in line.split("|")[1].split(",")
    }

    assert named - {"image.json"} == {file.name for file in made.iterdir()}


def test_the_commands_of_the_page_verify_it(
    made: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(made, tmp_path / "RELEASE")
    commands = [shown for shown in pages.commands() if shown.page == "docs/verify.md"]
    assert 3 == len(commands)
    for shown in commands:
        where = tmp_path if "RELEASE" in shown.command else folder
        key = Path(shutil.copy(keys[1], where / "karpenter-release.pub"))
        program = f"{sys.executable} {wheels.ROOT}/tools/"
        done = subprocess.run(
            shown.command.replace(".venv/bin/python tools/", program),
            shell=True,
            cwd=where,
            capture_output=True,
            text=True,
            check=False,
        )
        key.unlink()  # it is no file of the release
        assert 0 == done.returncode, done.stderr
        assert pages.is_as_shown(shown.output, done.stdout), done.stdout


def test_a_wheel_of_other_sources_is_noticed_even_if_everything_else_fits(
    made: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(made, tmp_path / "RELEASE")
    (wheel,) = folder.glob("*.whl")
    wheel.write_bytes(wheel.read_bytes() + b" ")
    stated = provenance.statement(
        folder, commit=release.git("rev-parse", "HEAD"), parameters={}, inputs=[], builder="urn:me"
    )
    release.write_json(folder / provenance.STATEMENT, stated)
    provenance.write_sums(folder)
    provenance.sign(folder, keys[0])

    with pytest.raises(provenance.ReleaseError, match=f"{wheel.name} is not what .* gives"):
        release.check(folder, keys[1])


def test_the_charts_can_be_installed(made: Path, helm: Helm) -> None:
    for name in release.CHARTS:
        package = made / f"{name}-{__version__}.tgz"
        done = subprocess.run(
            [helm.program, "template", "karpenter", package],
            capture_output=True,
            text=True,
            check=False,
        )
        assert 0 == done.returncode, done.stderr
        assert "kind: " in done.stdout


@pytest.fixture
def plugin(made: Path, tmp_path: Path) -> Iterator[Path]:
    """The archive unpacked, with a link to it on a path, as krew does it."""
    store, links = tmp_path / "store", tmp_path / "bin"
    with tarfile.open(made / krew.archive_name(__version__, wheelhouse())) as archive:
        archive.extractall(store, filter="data")
    links.mkdir()
    (links / "kubectl-karpenter").symlink_to("../store/kubectl-karpenter")
    yield links
    shutil.rmtree(store)


def run_plugin(links: Path, python: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run it with one Python and nothing else on the path, and no way to a network."""
    folder = links.parent / "programs"
    if not folder.exists():
        folder.mkdir()
        (folder / "python3").symlink_to(python)
        for name in ("dirname", "readlink"):
            (folder / name).symlink_to(shutil.which(name) or name)
    path = os.pathsep.join([str(links), str(folder)])
    nowhere = "http://127.0.0.1:9"
    environment = plain_environment(PATH=path, HTTPS_PROXY=nowhere, HTTP_PROXY=nowhere)
    return subprocess.run(
        [links / "kubectl-karpenter", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.case("OPS-44")
@pytest.mark.parametrize("version", wheels.PYTHONS)
def test_the_plugin_installs_itself_without_a_network(version: str, plugin: Path) -> None:
    python = need(version)
    files = (PLAN / "cluster.yaml", PLAN / "workloads.yaml")

    first = run_plugin(plugin, python, "--version")
    second = run_plugin(plugin, python, "plan", *files)

    assert (0, f"karpenter {__version__}\n") == (first.returncode, first.stdout), first.stderr
    assert f"preparing {plugin.parent / 'store' / 'environment'}, once\n" == first.stderr
    assert 0 == second.returncode, second.stderr
    assert "Nodes to create" in second.stdout
    (configured,) = (plugin.parent / "store" / "environment").glob("lib/python*")
    assert f"python{version}" == configured.name


@pytest.mark.case("OPS-44")
def test_an_older_python_is_one_sentence(plugin: Path) -> None:
    python = need("3.10")

    done = run_plugin(plugin, python, "--version")

    wanted = "error: kubectl karpenter needs Python 3.11, 3.12 or 3.13; install one, or name it in KARPENTER_PYTHON\n"
    assert (1, "", wanted) == (done.returncode, done.stdout, done.stderr)


def test_a_changed_wheel_is_refused_and_leaves_nothing(plugin: Path) -> None:
    store = plugin.parent / "store"
    (wheel,) = (store / "wheels").glob("structlog-*.whl")
    content = bytearray(wheel.read_bytes())
    content[len(content) // 2] ^= 1
    wheel.write_bytes(content)

    done = run_plugin(plugin, Path(sys.executable), "--version")

    assert 1 == done.returncode
    assert "error: the environment cannot be made" in done.stderr
    assert [] == list(store.glob("environment*"))

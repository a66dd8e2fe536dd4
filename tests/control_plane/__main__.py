"""Build a real control plane, or run one to try things on.

``python -m control_plane build`` builds the programs that are missing, and helm and promtool, and says
where they are; ``build helm`` and ``build promtool`` build one of those alone.
``python -m control_plane run`` starts a cluster and prints where its kubeconfig is; Ctrl-C ends it.
Both need the folder ``tests`` on ``PYTHONPATH``.
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

from control_plane import build
from control_plane.cluster import control_plane, obstacle
from control_plane.processes import StartError


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m control_plane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    builds = commands.add_parser("build", help="build what is missing")
    alone = {program.name: program for program in (build.HELM, build.PROMTOOL)}
    builds.add_argument("program", nargs="?", choices=[*alone], help="this one alone")
    run = commands.add_parser("run", help="start a cluster until Ctrl-C")
    run.add_argument("--kwok", action="store_true", help="let kwok play the kubelets of all nodes")
    given = parser.parse_args()
    if given.command == "build":
        everything = [*build.PROGRAMS, *alone.values()]
        return build.main([alone[given.program]] if given.program else everything)
    return _run(kwok=given.kwok)


def _run(*, kwok: bool) -> int:
    problem = obstacle()
    if problem is not None:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="control-plane-") as folder,
            control_plane(Path(folder)) as cluster,
        ):
            if kwok:
                cluster.start_kwok(every_node=True)
            print(f"export KUBECONFIG={cluster.kubeconfig}", flush=True)
            signal.pause()
    except (build.BuildError, StartError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

"""Make a picture of a terminal: ``render.py OUT.svg COMMAND…`` runs the command and draws it."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 118
MOST_LINES = 60
REMOTE_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # a picture fetches nothing


def main() -> None:
    """Run the command in a terminal's stead and save what a person would have seen."""
    target, command = Path(sys.argv[1]), sys.argv[2:]
    run = subprocess.run(  # noqa: S603 -- the person who makes the picture names the command
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH)},
    )
    lines = run.stdout.splitlines()
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text("$ " + " ".join([Path(command[0]).name, *command[1:]]), style="bold"))
    for line in lines[:MOST_LINES]:
        console.print(Text.from_ansi(line))
    if len(lines) > MOST_LINES:
        console.print(Text(f"… {len(lines) - MOST_LINES} more lines", style="dim"))
    picture = REMOTE_FONT.sub("", console.export_svg(title="karpenter"))
    target.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()

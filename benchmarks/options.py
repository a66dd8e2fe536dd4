"""The command line that all benchmarks share."""

import argparse


def options(about: str, *, smoke: str) -> argparse.ArgumentParser:
    """A parser with what every benchmark takes; ``smoke`` says what a smoke run makes small."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "--smoke",
        action="store_true",
        help=f"{smoke}, no judgement: only prove that the program works",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser

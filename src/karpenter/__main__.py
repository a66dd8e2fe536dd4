"""Run the command line as ``python -m karpenter``."""

from karpenter.cli.app import main

if __name__ == "__main__":
    main()

"""What may be served beside the controllers of a process, such as the dashboard.

The controllers know nothing of it. It reads what they read anyway, has a client that cannot write, and
may fail without them noticing once it has begun.
"""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from karpenter.controllers.manager import Process
from karpenter.controllers.mirrors import Mirrors
from karpenter.kube.lease import Election
from karpenter.kube.read_only import ReadOnlyClient


@dataclass(frozen=True, slots=True)
class Running:
    """A process whose controllers are about to run, as far as others may see it."""

    process: Process
    mirrors: Mirrors
    reads: ReadOnlyClient  # for kinds that the controllers do not follow
    election: Election | None  # None: this process always leads
    namespace: str = ""  # of the pod it runs in; empty outside of a cluster


class Beside(Protocol):
    """Something to serve for as long as the controllers run."""

    def __call__(self, running: Running) -> AbstractAsyncContextManager[object]:
        """Serve for as long as the block runs.

        Raises:
            StartError: it cannot be served, and the process does not start.
        """

"""The process that plans for a dashboard, so that the process that serves it is never held up.

It is a program of its own, which ``process`` runs at a low priority. It holds a state of the cluster, fed over its
standard input, answers one question at a time on its standard output, and ends with its input.
"""

import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import BinaryIO, Final

import msgspec

from karpenter.api.karpenter import NodePool
from karpenter.api.legacy import Provisioner
from karpenter.api.meta import Resource
from karpenter.cloud.types import InstanceType
from karpenter.dashboard.answers.asking import Asking, Said
from karpenter.dashboard.answers.messages import (
    PLAN,
    SAVINGS,
    WHAT_IF,
    Answered,
    Ask,
    Begin,
    Change,
    Changes,
    Message,
    Refused,
    Reply,
    SomeTypes,
    Supplied,
    encode_reply,
    message_of,
    object_of,
    read_frame,
    with_length,
)
from karpenter.dashboard.answers.supply import Supply
from karpenter.dashboard.answers.world import Terms, World
from karpenter.dashboard.questions import QuestionError
from karpenter.inquiry.expected_status import settled_pool, with_marks
from karpenter.os_errors import os_reason
from karpenter.state.cluster import ClusterState
from karpenter.state.object_keys import Identity
from karpenter.state.snapshot import Snapshot

KEPT_SECONDS: Final = 10.0  # how long plans for an unchanged cluster are kept


class Planner:
    """The state of the process, and what it answers."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Begin without a cluster."""
        self._monotonic = monotonic
        self._terms = Terms()
        self._objects: dict[Identity, Resource] = {}
        self._state = ClusterState()  # of a running cluster, kept up to date
        self._parts: dict[int, list[InstanceType]] = {}
        self._supply: Supply | None = None
        self._asking: Asking | None = None
        self._asked: tuple[int, float] = (-1, 0.0)  # version, and when it was planned

    def take(self, message: Message) -> Reply | None:
        """Take in a message; a question has a reply."""
        match message:
            case Begin():
                self._terms = message.terms
            case Changes():
                for change in message.changes:
                    self._apply(change)
                self._asking = None
            case SomeTypes():
                self._parts.setdefault(message.catalogue, []).extend(message.types)
            case Supplied():
                self._be_supplied(message)
                self._asking = None
            case Ask():
                return self._reply(message)
        return None

    def _apply(self, change: Change) -> None:
        before, now = self._objects.pop(change.identity, None), object_of(change)
        if now is not None:
            self._objects[change.identity] = now
            self._state.apply(settled_pool(now) if isinstance(now, NodePool) else now)
        elif before is not None:
            self._state.delete(before)

    def _be_supplied(self, message: Supplied) -> None:
        catalogues = {number: tuple(types) for number, types in self._parts.items()}
        self._parts.clear()
        self._supply = Supply(
            message.facts,
            {pool: catalogues.get(number, ()) for pool, number in message.pools.items()},
            message.references,
            catalogues.get(message.others, ()),
            message.repair_policies,
        )

    def _reply(self, ask: Ask) -> Reply:
        begun = self._monotonic()
        try:
            said = self._said(ask)
        except QuestionError as error:
            problems = [msgspec.to_builtins(each) for each in error.problems]
            return Refused(type(error).__name__, str(error), problems)
        return Answered(said.document, said.is_partial, self._monotonic() - begun)

    def _said(self, ask: Ask) -> Said:
        asking = self._about(ask)
        if ask.verb == PLAN:
            return asking.plan()
        if ask.verb == SAVINGS:
            return asking.savings()
        if ask.verb == WHAT_IF:
            return asking.what_if(ask.request)
        kind, namespace, name = ask.names
        return asking.explain(kind, namespace, name)

    def _about(self, ask: Ask) -> Asking:
        """What answers about the cluster as it is, with the plans that were made just before."""
        version, at = self._asked
        is_fresh = self._monotonic() - at < KEPT_SECONDS and version == ask.version
        if self._asking is None or not is_fresh:
            assert self._supply is not None, "it is sent before the first question"
            world = World(tuple(self._objects.values()), self._supply, self._terms, ask.now)
            self._asking = Asking(world.with_snapshot(self._snapshot()), ask.seconds)
            self._asked = ask.version, self._monotonic()
        return self._asking

    def _snapshot(self) -> Snapshot | None:
        """The cluster, where it does not have to be put together from its objects."""
        has_old_keys = any(isinstance(each, Provisioner) for each in self._objects.values())
        if self._terms.is_files or has_old_keys:
            return None
        return with_marks(self._state.snapshot())


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer what is asked, until the input ends."""
    planner = Planner()
    while (content := read_frame(source)) is not None:
        message = message_of(content)
        try:
            reply = planner.take(message)
        except Exception as error:
            if not isinstance(message, Ask):
                raise  # the state is not that of the cluster any more
            traceback.print_exc()
            reply = Refused("NoAnswerError", f"planning has failed: {error!r}", [])
        if reply is not None:
            sink.write(with_length(encode_reply(reply)))
            sink.flush()


def main() -> int:
    """Serve on standard input and output."""
    # What is printed by mistake must not get between the answers
    answers = os.dup(sys.stdout.fileno())
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    try:
        with os.fdopen(answers, "wb") as sink:
            serve(sys.stdin.buffer, sink)
    except BrokenPipeError:
        return 0  # the answer is not awaited any more
    except OSError as error:
        sys.stderr.write(f"error: the process that plans cannot go on: {os_reason(error)}\n")
        return 1
    return 0

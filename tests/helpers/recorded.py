"""Recorders at work in virtual time, and what they leave."""

import asyncio
import io
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from karpenter.api.meta import JsonObject
from karpenter.clock import running_clock
from karpenter.kube.read_only import ReadOnlyClient
from karpenter.kube.transport import Transport
from karpenter.simulate.record.folder import Archive, Folder
from karpenter.simulate.record.live import Recording
from karpenter.simulate.record.names import Names
from karpenter.simulate.record.recorder import Recorder
from karpenter.simulate.record.segments import Change, Gap, Key, Reading, read

KEY = b"a key that only tests have"


@dataclass
class Running:
    """A recorder at work."""

    recorder: Recorder
    recording: Recording
    archive: Archive
    stop: asyncio.Event
    task: "asyncio.Task[None]"
    folder: Folder

    async def end(self) -> None:
        """End it in order."""
        self.stop.set()
        await self.task
        self.folder.close()

    async def kill(self) -> None:
        """End it as a signal would that cannot be caught: nothing more is written."""
        self.archive.write = lambda line: None  # type: ignore[method-assign]
        self.archive.flush = lambda: None  # type: ignore[method-assign]
        self.archive.finish = lambda: None  # type: ignore[method-assign]
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        file, _ = self.archive._open_segment()
        assert isinstance(file, io.BufferedWriter)
        file.detach().close()  # what was not flushed is lost with the process
        self.folder.close()


async def begun(
    transport: Transport,
    path: Path,
    *,
    is_hashing: bool = False,
    namespaces: Sequence[str] = (),
    rotate_seconds: float | None = None,
    rotate_bytes: int | None = None,
    keep_seconds: float | None = None,
) -> Running:
    """A recorder that has read everything once."""
    clock = running_clock()

    def now() -> float:
        return clock.now().timestamp()

    folder = Folder(path)
    archive = Archive(
        folder,
        now=now,
        rotate_seconds=rotate_seconds,
        rotate_bytes=rotate_bytes,
        keep_seconds=keep_seconds,
    )
    names = Names(KEY, is_hashing=is_hashing)
    heard = archive.continue_(names.fingerprint)
    recorder = Recorder(names, now, archive.write, archive.changed)
    recording = Recording(
        ReadOnlyClient(transport, clock),
        clock,
        recorder,
        archive,
        rng=random.Random(1),
        namespaces=namespaces,
    )
    stop = asyncio.Event()
    task = asyncio.create_task(recording.run(stop, lasts=None, heard=heard), name="recording")
    while not recording.has_begun and not task.done():
        await clock.sleep(0.1)
    return Running(recorder, recording, archive, stop, task, folder)


@asynccontextmanager
async def recorded(transport: Transport, path: Path, **options: object) -> AsyncIterator[Running]:
    """A recorder at work while the block runs."""
    running = await begun(transport, path, **options)  # type: ignore[arg-type]
    try:
        yield running
    finally:
        if not running.task.done():
            await running.end()


@dataclass
class Recorded:
    """What a folder tells."""

    changes: list[Change]
    gaps: list[Gap]
    reading: Reading

    @property
    def objects(self) -> dict[Key, JsonObject]:
        """What there was in the end."""
        return self.reading.objects


def content(path: Path) -> list[tuple[str, bytes]]:
    """The segments of a folder."""
    return [(each.name, each.read_bytes()) for each in sorted(path.glob("events-*.jsonl.gz"))]


def told(path: Path) -> Recorded:
    """Read a folder."""
    reading = Reading()
    found = list(read(content(path), reading))
    changes = [each for each in found if isinstance(each, Change)]
    return Recorded(changes, [each for each in found if isinstance(each, Gap)], reading)

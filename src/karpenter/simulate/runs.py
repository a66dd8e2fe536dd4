"""Runs of a scenario: all its variants, one after the other or beside each other in processes."""

import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from karpenter.decision_log.record import DecisionRecord
from karpenter.simulate.lengths import seconds
from karpenter.simulate.observing import make_observers
from karpenter.simulate.scenario.models import Scenario
from karpenter.simulate.scenario.reader import Loaded
from karpenter.simulate.seam import Run, VariantRun
from karpenter.simulate.storm import storm_of, stormy
from karpenter.simulate.variant_run import run_world
from karpenter.simulate.world import Hooks, Progress, Setup
from karpenter.telemetry import quiet_logger
from karpenter.telemetry.logs import take_over

_KIBIBYTE: Final = 1024


class Interrupts:
    """Counts Ctrl-C: the first one stops at the present instant, the second one ends at once."""

    def __init__(self) -> None:
        self.count = 0

    def is_stopped(self) -> bool:
        """Whether the runs are to stop."""
        return self.count > 0

    def take(self, _signal: int, _frame: object) -> None:
        """Take note of one."""
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count for as long as a block runs."""
        before = signal.signal(signal.SIGINT, self.take)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


@dataclass(frozen=True, slots=True)
class Showing:
    """What is shown of runs while they go on; nothing by default."""

    decided: Callable[[DecisionRecord], None] | None = None
    progress: Callable[[str, Progress], None] | None = None
    done: Callable[[int, int], None] | None = None  # how many variants of how many


def setup_of(loaded: Loaded, index: int) -> Setup:
    """Everything that a variant's run follows from."""
    return Setup(
        scenario=loaded.scenario,
        variant=loaded.variants[index],
        files=loaded.files,
        manifests=loaded.manifests,
        samples=loaded.samples,
        types=loaded.types(),
        start=loaded.start,
        seed=loaded.seed,
        until=loaded.until,
    )


def run_variant(loaded: Loaded, index: int, hooks: Hooks | None = None) -> VariantRun:
    """Run one variant with the observers of the report."""
    take_over(quiet_logger())  # what the controllers log is not what the command prints
    hooks = hooks or Hooks()
    minimum = seconds(loaded.scenario.billing.minimum)
    setup = setup_of(loaded, index)
    storm = storm_of(setup)
    rests = storm is not None and storm.has_rest(setup.until)
    observers = make_observers(billing_minimum=minimum, rests=rests)
    if storm is not None:
        setup, _, wrap = stormy(setup, storm)
        hooks = replace(hooks, wrap=wrap)
    return run_world(setup, replace(hooks, observers=observers))


def run_scenario(loaded: Loaded, *, jobs: int, interrupts: Interrupts, showing: Showing) -> Run:
    """Run all variants of a scenario."""
    wall, processor = time.perf_counter(), _processor_seconds()
    if jobs > 1 and len(loaded.variants) > 1:
        variants = _beside_each_other(loaded, jobs, interrupts, showing)
    else:
        variants = _one_after_the_other(loaded, interrupts, showing)
    warnings = [*loaded.warnings]
    for each in variants:
        prefix = f"{each.name}: " if len(loaded.variants) > 1 else ""
        warnings += [f"{prefix}{text}" for text in each.warnings]
    return Run(
        scenario=loaded.scenario,
        sha256=loaded.sha256,
        demand_sha256=loaded.demand_sha256,
        seed=loaded.seed,
        variants=tuple(variants),
        warnings=tuple(warnings),
        not_modelled=not_modelled(loaded.scenario),
        wall_seconds=time.perf_counter() - wall,
        processor_seconds=_processor_seconds() - processor,
        peak_bytes=_peak_bytes(),
        objects=loaded.objects,
    )


def _one_after_the_other(
    loaded: Loaded, interrupts: Interrupts, showing: Showing
) -> list[VariantRun]:
    found = []
    for index, variant in enumerate(loaded.variants):
        hooks = Hooks(is_stopped=interrupts.is_stopped, decided=showing.decided)
        told = showing.progress
        if told is not None:
            hooks.progress = _named(told, variant.name)
        found.append(run_variant(loaded, index, hooks))
        if showing.done is not None:
            showing.done(index + 1, len(loaded.variants))
        if interrupts.is_stopped():
            break
    return found


def _beside_each_other(
    loaded: Loaded, jobs: int, interrupts: Interrupts, showing: Showing
) -> list[VariantRun]:
    # Each worker starts anew: a fork would copy the threads' locks of a terminal display
    context = multiprocessing.get_context("spawn")
    count = len(loaded.variants)
    found: dict[int, VariantRun] = {}
    workers = min(jobs, count)
    with ProcessPoolExecutor(workers, mp_context=context, initializer=end_with_parent) as pool:
        futures = {pool.submit(_in_worker, loaded, index): index for index in range(count)}
        for number, future in enumerate(as_completed(futures)):
            found[futures[future]] = future.result()
            if showing.done is not None:
                showing.done(number + 1, count)
            if interrupts.is_stopped():
                for other in futures:
                    other.cancel()
                futures_left = [each for each in futures if not each.cancelled()]
                for each in futures_left:
                    found[futures[each]] = each.result()
                break
    return [found[index] for index in sorted(found)]


def _in_worker(loaded: Loaded, index: int) -> VariantRun:
    """Run a variant in a process of its own, which a terminal's Ctrl-C reaches as well."""
    interrupts = Interrupts()
    with interrupts.watched():
        return run_variant(loaded, index, Hooks(is_stopped=interrupts.is_stopped))


def end_with_parent() -> None:
    """End this worker process when the one that began it ends: that may be killed at any moment.

    Otherwise a worker would run on to the end of its variant, and then wait for another one forever.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def _named(told: Callable[[str, Progress], None], name: str) -> Callable[[Progress], None]:
    return lambda progress: told(name, progress)


def not_modelled(scenario: Scenario) -> tuple[str, ...]:
    """What is left out of the world and matters to a scenario."""
    found = [
        "networks between pods, nodes and the control plane",
        "kubelets that evict pods under pressure",
        "programs in containers: when they start and end is drawn",
    ]
    machines = scenario.machines
    if machines.images is None:
        found.append("the time that images take, as machines.images is not given")
    if isinstance(machines.boot, str) and machines.boot in ("0", "0s"):
        found.append("the time that machines take to boot, as machines.boot is not given")
    if scenario.control_plane.latency in ("0", "0s"):
        found.append("the latency of the API, as controlPlane.latency is not given")
    if scenario.control_plane.thinking in ("0", "0s"):
        text = "the time that the controllers take to think, as controlPlane.thinking is not given"
        found.append(text)
    is_spot_moving = any(price.walk or price.series for price in scenario.prices)
    if not is_spot_moving and not any(step.price for step in scenario.timeline):
        found.append("prices that move, as prices are not given")
    varied = [*scenario.compare, *(each for axis in scenario.matrix.values() for each in axis)]
    has_faults = scenario.faults is not None or any(each.faults is not None for each in varied)
    is_taken_back = bool(scenario.interruptions) or has_faults
    if not is_taken_back and not any(step.interrupt for step in scenario.timeline):
        found.append("spot machines that are taken back, as interruptions are not given")
    if not has_faults and not any(step.sold_out or step.zone_down for step in scenario.timeline):
        found.append("offerings that are sold out")
    if any(workload.csv is not None and workload.csv.share for workload in scenario.workloads):
        found.append("GPUs that pods share")
    return tuple(found)


def usable_cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor_seconds() -> float:
    found = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        found += used.ru_utime + used.ru_stime
    return found


def _peak_bytes() -> int:
    """The most memory that one process had."""
    used: Sequence[Any] = [
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    # macOS counts in bytes
    return int(max(used)) * (1 if sys.platform == "darwin" else _KIBIBYTE)

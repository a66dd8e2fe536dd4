"""Delivers the messages of one sink: one at a time, with retries, until it is given up."""

import asyncio
import random
from dataclasses import dataclass
from typing import Final

from structlog.typing import FilteringBoundLogger

from karpenter.clock import Clock
from karpenter.decision_log.record import DecisionRecord
from karpenter.notifications.channels import Channel, UnsendableError, UnsentError
from karpenter.notifications.config import SinkConfig
from karpenter.notifications.outbox import Delivery, Outbox
from karpenter.notifications.retrying import (
    GIVEN_UP_AFTER,
    TRY_SECONDS,
    Verdict,
    asked_delay,
    delay_after,
    verdict_of,
)
from karpenter.telemetry import Metrics

SENT: Final = "sent"
FAILED: Final = "failed"
DROPPED: Final = "dropped"
SUPPRESSED: Final = "suppressed"
OUTCOMES: Final = (SENT, FAILED, DROPPED, SUPPRESSED)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The result of one try."""

    verdict: Verdict
    asked_delay: float = 0.0
    problem: str = ""


class SinkWorker:
    """Sends the records that match one sink."""

    def __init__(
        self,
        sink: SinkConfig,
        channel: Channel,
        clock: Clock,
        log: FilteringBoundLogger,
        metrics: Metrics,
        rng: random.Random,
    ) -> None:
        self.sink: Final = sink
        self._channel = channel
        self._clock = clock
        self._log = log
        self._rng = rng
        self._outbox = Outbox(sink.digest_seconds)
        self._wakeup = asyncio.Event()
        self._is_sending = False
        family = metrics.notifications_total
        self._counters = {each: family.labels(sink=sink.name, outcome=each) for each in OUTCOMES}

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is being sent."""
        return not self._is_sending and not len(self._outbox)

    def offer(self, record: DecisionRecord) -> None:
        """Enqueue a record if it matches the sink; never waits."""
        if not self.sink.match.lets_through(record):
            return
        self._outbox.offer(record, self._clock.monotonic())
        self._count_lost()
        self._wakeup.set()

    def hurry(self) -> None:
        """Flush a digest that is being collected."""
        self._outbox.hurry(self._clock.monotonic())
        self._wakeup.set()

    async def run(self) -> None:
        """Send what comes, until cancelled."""
        try:
            while True:
                delivery = self._outbox.take(self._clock.monotonic())
                if delivery is None:
                    await self._wait()
                    continue
                self._is_sending = True
                try:
                    await self._deliver(delivery)
                finally:
                    self._is_sending = False
        finally:
            await self._channel.close()

    async def _wait(self) -> None:
        self._wakeup.clear()
        now = self._clock.monotonic()
        until = self._outbox.wake_at(now)
        if until is None:
            await self._wakeup.wait()
        else:
            await self._clock.wait(self._wakeup, seconds=max(0.0, until - now))

    async def _deliver(self, delivery: Delivery) -> None:
        delivery.tries += 1
        attempt = await self._attempt(delivery)
        now = self._clock.monotonic()
        if attempt.verdict is Verdict.SENT:
            self._counters[SENT].inc(delivery.message.count)
            return
        problem = attempt.problem
        if attempt.verdict is Verdict.AGAIN:
            delay = max(delay_after(delivery.tries, self._rng), attempt.asked_delay)
            if now + delay - delivery.created <= GIVEN_UP_AFTER:
                if attempt.asked_delay:
                    self._outbox.pause(now + attempt.asked_delay)
                self._outbox.try_again(delivery, now + delay)
                self._count_lost()
                return
            problem = f"{problem}; given up after {delivery.tries} tries"
        self._counters[FAILED].inc(delivery.message.count)
        self._log.warning(
            "notification not delivered", sink=self.sink.name, id=delivery.message.id, error=problem
        )

    async def _attempt(self, delivery: Delivery) -> _Attempt:
        try:
            answer = await self._clock.wait_for(
                self._channel.send(delivery.message), seconds=TRY_SECONDS
            )
        except TimeoutError:
            return _Attempt(Verdict.AGAIN, problem=f"{self._where()} did not answer in time")
        except UnsentError as error:
            return _Attempt(Verdict.AGAIN, problem=str(error))
        except UnsendableError as error:
            return _Attempt(Verdict.FINAL, problem=str(error))
        except Exception as error:  # noqa: BLE001 other messages are to be sent all the same
            return _Attempt(Verdict.FINAL, problem=f"{self._where()}: {type(error).__name__}")
        verdict = verdict_of(answer.status)
        delay = asked_delay(answer.headers, self._clock.now()) if verdict is Verdict.AGAIN else 0.0
        return _Attempt(verdict, delay, f"{self._where()} answered {answer.status}")

    def _where(self) -> str:
        return self._channel.where() or f"sink {self.sink.name}"

    def _count_lost(self) -> None:
        outbox = self._outbox
        dropped, outbox.dropped = outbox.dropped, 0
        suppressed, outbox.suppressed = outbox.suppressed, 0
        if dropped:
            self._counters[DROPPED].inc(dropped)
        if suppressed:
            self._counters[SUPPRESSED].inc(suppressed)

"""Testing a configuration before it is used: is it right, and does one sink take a message?"""

from datetime import datetime

from karpenter.clock import Clock
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.record import Draft, Kind, Outcome
from karpenter.notifications.channels import (
    Channel,
    UnsendableError,
    UnsentError,
    checked_host,
    read_secret,
)
from karpenter.notifications.config import NotificationsConfig, SinkConfig
from karpenter.notifications.outbox import Message
from karpenter.notifications.retrying import TRY_SECONDS, Verdict, verdict_of


class TrialError(Exception):
    """What is wrong with a sink; the text is one sentence."""


def check_files(config: NotificationsConfig) -> list[str]:
    """Read the files of all sinks, and return a line for each: its name, type and host.

    Raises:
        TrialError: a file is missing or holds what cannot be used.
    """
    return [f"{sink.name}: {sink.type.value} to {_destination(sink)}" for sink in config.sinks]


async def send_test(sink: SinkConfig, channel: Channel, clock: Clock) -> str:
    """Send one message to a sink, whatever its filter, and return the result in one line.

    Raises:
        TrialError: the sink did not take it.
    """
    try:
        answer = await clock.wait_for(channel.send(trial_message(clock.now())), seconds=TRY_SECONDS)
    except TimeoutError:
        raise TrialError(f"sink {sink.name}: it did not answer in time") from None
    except (UnsentError, UnsendableError) as error:
        raise TrialError(f"sink {sink.name}: {error}") from error
    finally:
        await channel.close()
    result = f"{channel.where()} answered {answer.status}"
    if verdict_of(answer.status) is not Verdict.SENT:
        raise TrialError(f"sink {sink.name}: {result}")
    return f"sink {sink.name}: {result}"


def trial_message(now: datetime) -> Message:
    """A message that says it is a test."""
    text = "this is a test of karpenter's notifications; nothing has been decided"
    record = DecisionLog().add(now, Draft(Kind.CONFIG, Outcome.DONE, "Test", text))
    return Message(record.id, (record,), ((record.kind.value, 1),))


def _destination(sink: SinkConfig) -> str:
    if sink.topic_arn:
        return sink.topic_arn
    try:
        if sink.secret_file:
            read_secret(sink.secret_file)
        return checked_host(read_secret(sink.url_file).decode(errors="replace"), sink.url_file)
    except (UnsentError, UnsendableError) as error:
        raise TrialError(f"sink {sink.name}: {error}") from error

"""What finished commands have saved so far, counted from decision records alone.

A saving counts from the moment at which its command was finished; what was only planned, abandoned or
failed counts nothing. Every command counts once.
"""

from datetime import datetime, timedelta
from typing import Final

from karpenter.dashboard.contract import Realised
from karpenter.decision_log.record import DecisionRecord, Outcome, Source
from karpenter.kube.events import Recent
from karpenter.model.conditions import moment_of

_HOUR: Final = timedelta(hours=1)
_MOST: Final = 20_000  # commands that are recognised when they are told of a second time


class RealisedSavings:
    """The savings of the commands of a decision log, which it takes in one by one."""

    def __init__(self) -> None:
        """Begin without commands."""
        self._known: Recent[bool] = Recent(_MOST)
        self._commands = 0
        self._hourly = 0.0
        self._dollars = 0.0  # up to ``_counted``
        self._counted: datetime | None = None
        self._since = ""
        self._is_estimate = False

    def note(self, record: DecisionRecord) -> None:
        """Take in a record; of a command that is not finished, or is known, nothing counts."""
        at, command, saving = moment_of(record.at), record.command, record.savings_hourly
        is_finished = record.outcome is Outcome.DONE and record.source is Source.CONTROLLER
        if not is_finished or not command or saving is None or at is None:
            return
        if self._known.get((command,)) is not None:
            return
        self._known.put((command,), True)
        if self._counted is None:
            self._counted = at
        # What it has saved between its end and the moment up to which the others are counted
        self._dollars += saving * ((self._counted - at) / _HOUR)
        self._hourly += saving
        self._commands += 1
        self._since = min(self._since or record.at, record.at)
        self._is_estimate = self._is_estimate or record.is_estimate

    def until(self, now: datetime) -> Realised | None:
        """What was saved until now; None while no command has finished."""
        if self._counted is None:
            return None
        return Realised(
            dollars=self._dollars + self._hourly * ((now - self._counted) / _HOUR),
            hourly=self._hourly,
            commands=self._commands,
            since=self._since,
            is_estimate=self._is_estimate,
        )

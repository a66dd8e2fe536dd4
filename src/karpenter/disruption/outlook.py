"""A cluster while commands are begun one after the other, and what a pass would see each time.

Time stands still meanwhile. What controllers have written down counts as it stands, and what is
absent is worked out. Pods that wait for a node keep the machines they would come to, as
provisioning would promise them.
"""

from datetime import datetime
from typing import Final

from karpenter.api.times import later
from karpenter.cloud.repair import RepairPolicies
from karpenter.cloud.types import ProviderFacts
from karpenter.disruption.aftermath import Aftermath
from karpenter.disruption.commands import Command
from karpenter.disruption.foreseen import with_conditions
from karpenter.disruption.passes import DisruptionSettings, Memory, Pass, Timer, no_hurry
from karpenter.scheduling.compiler import Compiler
from karpenter.scheduling.provisioning import Catalogue
from karpenter.state.snapshot import Snapshot


class Outlook:
    """A cluster and the commands begun in it."""

    def __init__(
        self,
        snapshot: Snapshot,
        catalogue: Catalogue,
        facts: ProviderFacts,
        settings: DisruptionSettings,
        *,
        now: datetime,
        policies: RepairPolicies | None = None,
        memory: Memory | None = None,
        timer: Timer = no_hurry,
    ) -> None:
        """Begin with no command; the arguments are those of a pass."""
        self._facts = facts
        self._settings = settings
        self._now = now
        self._policies = policies
        self._memory = memory
        self._timer = timer
        self._compiler = Compiler()
        self._until = later(now, settings.nomination)
        self._after = Aftermath(with_conditions(snapshot, catalogue, now=now), facts, catalogue)
        self.before: Final = self.look()  # before anything is promised or begun
        self.is_paused: Final = self.before.is_paused
        if not self.is_paused:
            self._after.expect(self.before.awaited, until=self._until)

    def begin(self, command: Command) -> None:
        """Begin a command."""
        self._after.begin(command, until=self._until)

    def look(self) -> Pass:
        """Look at the cluster as it is now."""
        return Pass(
            self._after.snapshot,
            self._after.types,
            self._facts,
            self._settings,
            now=self._now,
            in_progress=self._after.in_progress,
            memory=self._memory,
            policies=self._policies,
            compiler=self._compiler,
            timer=self._timer,
        )

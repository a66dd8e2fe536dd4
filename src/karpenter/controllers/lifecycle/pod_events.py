"""Pod events: when a pod was last added to a machine or removed from it.

The time is stored in the claim's status; ``consolidateAfter`` is counted from it. Events that this
process observes are dated by its clock. Earlier events are dated by the timestamps of the pods, so
a restart neither loses an event nor makes every machine look busy.
"""

from datetime import datetime, timedelta
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.api.times import earlier, in_seconds
from karpenter.controllers.context import STATUS, Context, Controller
from karpenter.controllers.lifecycle.claim_changes import is_deleting
from karpenter.controllers.lookup import claims_of
from karpenter.disruption.claim_conditions import CLOCK_SKEW
from karpenter.kube.mirror import Key
from karpenter.model.conditions import POD_SCHEDULED, READY, find, is_true, timestamp
from karpenter.state.pods import is_active, is_bound, is_daemon, is_finished, is_terminating

_DEDUPE: Final = timedelta(seconds=10)


class PodEvents(Controller):
    """Dates the claims of nodes on which something happened to a pod; keys are node names."""

    name = "nodeclaim.podevents"
    kind = Node
    workers = 10

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._latest: dict[str, datetime] = {}  # node name -> what is to be written
        self._is_beginning = True
        self._ends.append(context.mirror(Pod).on_change(self._notice))
        self._is_beginning = False

    async def reconcile(self, key: Key) -> float | None:
        """Write down the latest event on a node, unless one shortly before is."""
        name = key[1]
        moment = self._latest.get(name)
        node = self.context.mirror(Node).get(name)
        claims = claims_of(self.context, node) if node is not None else []
        if moment is None:
            return None
        for claim in claims:
            if not is_deleting(claim) and is_news(claim, moment, now=self.clock.now()):
                body = {"status": {"lastPodEventTime": timestamp(moment)}}
                await self.context.patch(claim, body, subresource=STATUS)
        if self._latest.get(name) == moment:
            del self._latest[name]
        return None

    def _notice(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None or is_daemon(pod) or not is_bound(pod):
            return
        moment = self._moment(old, new)
        name = pod.spec.node_name
        known = self._latest.get(name)
        if moment is not None and (known is None or known < moment):
            self._latest[name] = moment
            self.queue.add(("", name))

    def _moment(self, old: Pod | None, new: Pod | None) -> datetime | None:
        if old is None and new is not None and self._is_beginning:
            return last_change(new)
        return self.clock.now() if is_event(old, new) else None


def is_event(old: Pod | None, new: Pod | None) -> bool:
    """Whether a pod was bound to its node, has ended there, or has begun to terminate."""
    if new is None:
        # Removed at once; one that was terminating had its event when that began
        return old is not None and is_active(old)
    if old is None or not is_bound(old):
        return True
    has_ended = is_finished(new) and not is_finished(old)
    return has_ended or (is_terminating(new) and not is_terminating(old))


def last_change(pod: Pod) -> datetime | None:
    """When the latest event of a pod was, according to its timestamps."""
    moments = [pod.metadata.creation_timestamp]
    scheduled = find(pod.status.conditions, POD_SCHEDULED)
    if scheduled is not None and is_true(pod.status.conditions, POD_SCHEDULED):
        moments.append(scheduled.last_transition_time)
    ready = find(pod.status.conditions, READY)
    if is_finished(pod) and ready is not None:
        moments.append(ready.last_transition_time)
    if pod.metadata.deletion_timestamp is not None:
        # A deletion timestamp is the end of the grace period, not the time of the request
        grace = in_seconds(pod.metadata.deletion_grace_period_seconds or 0)
        moments.append(earlier(pod.metadata.deletion_timestamp, grace))
    return max((moment for moment in moments if moment is not None), default=None)


def is_news(claim: NodeClaim, moment: datetime, *, now: datetime) -> bool:
    """Whether an event is to be written down: it is the first, or a while after the last.

    A stored time in the future comes from a clock that was wrong, and is replaced.
    """
    last = claim.status.last_pod_event_time
    return last is None or last - now > CLOCK_SKEW or moment - last >= _DEDUPE

"""Pods wait in the order in which they deserve a try, and no longer than they must."""

from helpers.scheduler_bench import pod
from karpenter_sandbox.scheduling.placement import ANY_CHANGE, Change
from karpenter_sandbox.scheduling.queue import PodQueue
from karpenter_sandbox.scheduling.shapes import PodInfo, Shapes


def info(name: str, priority: int = 0, cpu: str = "") -> PodInfo:
    return Shapes().read(pod(name, priority=priority, cpu=cpu))


def tried(queue: PodQueue, now: float) -> list[str]:
    """The pods that are ready for a try, in order."""
    names = []
    while (taken := queue.pop(now)) is not None:
        names.append(taken.key[1])
    return names


def test_priority_goes_first_then_arrival() -> None:
    queue = PodQueue()
    for at, (name, priority) in enumerate([("a", 0), ("b", 0), ("c", 5), ("d", 5)]):
        queue.add(info(name, priority), float(at))

    assert ["c", "d", "a", "b"] == tried(queue, 10)


def test_a_pod_that_could_not_be_placed_waits_for_a_change() -> None:
    queue = PodQueue()
    waiting = info("a")
    queue.add(waiting, 0)
    tried(queue, 0)
    queue.put_back(waiting, Change.NODE, 0)
    nothing = tried(queue, 100)
    queue.changed(Change.POD_GONE, 100)
    still_nothing = tried(queue, 100)
    queue.changed(Change.NODE, 100)

    assert ([], [], ["a"]) == (nothing, still_nothing, tried(queue, 100))


def test_a_change_does_not_cut_the_back_off_short() -> None:
    queue = PodQueue()
    waiting = info("a")
    queue.add(waiting, 0)
    tried(queue, 0)
    queue.put_back(waiting, ANY_CHANGE, 0)
    queue.changed(Change.NODE, 0.5)

    assert ([], 0.5, ["a"]) == (tried(queue, 0.5), queue.next_due(0.5), tried(queue, 1.0))


def test_the_back_off_doubles_up_to_ten_seconds() -> None:
    queue = PodQueue()
    waiting = info("a")
    queue.add(waiting, 0)
    now, waits = 0.0, []
    for _ in range(6):
        assert tried(queue, now) == ["a"]
        queue.put_back(waiting, ANY_CHANGE, now)
        queue.changed(Change.NODE, now)
        waits.append(queue.next_due(now))
        now += waits[-1] or 0

    assert [1, 2, 4, 8, 10, 10] == waits


def test_a_pod_is_tried_again_after_five_minutes_whatever_happens() -> None:
    queue = PodQueue()
    waiting = info("a")
    queue.add(waiting, 0)
    tried(queue, 0)
    queue.put_back(waiting, Change.STORAGE, 0)
    queue.flush(299)
    early = tried(queue, 299)
    queue.flush(300)

    assert ([], ["a"]) == (early, tried(queue, 300))


def test_a_pod_that_changes_is_worth_a_try() -> None:
    queue = PodQueue()
    waiting = info("a")
    queue.add(waiting, 0)
    tried(queue, 0)
    queue.put_back(waiting, Change.STORAGE, 0)
    queue.add(info("a", cpu="1"), 50)

    assert ["a"] == tried(queue, 50)


def test_a_pod_whose_status_changes_is_not() -> None:
    queue, shapes = PodQueue(), Shapes()
    waiting = shapes.read(pod("a"))
    queue.add(waiting, 0)
    tried(queue, 0)
    queue.put_back(waiting, Change.STORAGE, 0)
    queue.add(shapes.read(pod("a", status={"message": "no"})), 50)

    assert [] == tried(queue, 50)


def test_a_pod_that_is_gone_is_not_tried() -> None:
    queue = PodQueue()
    queue.add(info("a"), 0)
    queue.add(info("b"), 0)
    queue.remove(("default", "a"))

    assert (["b"], 1) == (tried(queue, 0), len(queue))


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    queue = PodQueue()
    first = info("a")
    queue.add(first, 0)
    tried(queue, 0)
    queue.put_back(first, Change.STORAGE, 0)
    second = Shapes().read(pod("a", metadata={"uid": "another"}))
    queue.add(second, 5)
    queue.put_back(first, Change.STORAGE, 5)

    assert second is queue.pop(5)


def test_an_empty_queue_waits_for_nothing() -> None:
    assert PodQueue().next_due(0) is None


def test_a_failed_try_is_repeated_after_its_back_off() -> None:
    queue = PodQueue()
    waiting = info("a")
    queue.add(waiting, 0)
    tried(queue, 0)
    queue.retry(waiting, 0)

    assert ([], ["a"]) == (tried(queue, 0.9), tried(queue, 1))


def test_a_pod_may_be_tried_at_once() -> None:
    queue = PodQueue()
    waiting = info("a")
    queue.add(waiting, 0)
    tried(queue, 0)
    queue.put_back(waiting, Change.STORAGE, 0)
    queue.activate(("default", "a"))

    assert ["a"] == tried(queue, 0)

"""Whatever is asked of whatever there is: nothing is given away twice, and nothing is overlooked.

Checked by adding up what was given, and by trying every assignment, without the solver's ledger.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.api.devices import CapacityRequestPolicy, Device, DeviceRequest, ResourceClaim
from karpenter.model.requirements import Requirements
from karpenter.scheduling.devices.inventory import PoolDevice, Published, published_pools
from karpenter.scheduling.devices.places import NodePlace
from karpenter.scheduling.devices.requests import Compiler
from karpenter.scheduling.devices.search import Found, Pick, Search
from karpenter.scheduling.devices.usage import Usage
from unit.scheduling.devices.device_objects import (
    alike,
    claim,
    device,
    device_class,
    exactly,
    first_available,
    placed_with,
    published,
    user,
    with_devices,
)

COUNTERS = {"x": "6", "y": "3"}
SMALL = st.integers(0, 3)


@st.composite
def devices(draw: st.DrawFn, most: int = 6) -> list[Device]:
    """Devices of one pool: some shared, some drawing on counters."""
    made = []
    for number in range(draw(st.integers(0, most))):
        draws = {name: str(n) for name in COUNTERS if (n := draw(SMALL))}
        made.append(
            device(
                f"d{number}",
                {"kind": draw(SMALL)},
                {"m": str(draw(st.integers(1, 6)))},
                policies={"m": CapacityRequestPolicy(default=str(draw(SMALL)))},
                draws=draws if draw(st.booleans()) else None,
                shared=draw(st.booleans()),
            )
        )
    return made


@st.composite
def requests(draw: st.DrawFn, name: str) -> DeviceRequest:
    """One request: so many devices of some kinds, perhaps with a share, perhaps all there are."""
    highest = draw(SMALL)
    return exactly(
        name,
        draw(st.integers(1, 3)),
        f'device.attributes["gpu.test"].kind <= {highest}',
        every=draw(st.integers(0, 4)) == 0,
        capacity={"m": str(draw(SMALL))} if draw(st.booleans()) else None,
    )


@st.composite
def resource_claims(draw: st.DrawFn) -> ResourceClaim:
    """A claim with a few requests, one of them perhaps with alternatives."""
    wanted = [draw(requests(f"r{n}")) for n in range(draw(st.integers(1, 2)))]
    if draw(st.booleans()):
        wanted.append(first_available("w", draw(requests("a")), draw(requests("b"))))
    constraints = [alike("gpu.test/kind")] if draw(st.booleans()) else []
    return claim("c", *wanted, constraints=constraints)


def place_with(some: Sequence[Device]) -> NodePlace:
    there = Published(published_pools([published(some, counters=COUNTERS)]))
    return NodePlace("n", Requirements(), there, None)


@settings(max_examples=80, deadline=None)
@given(devices(), st.lists(resource_claims(), min_size=1, max_size=6))
def test_nothing_is_given_away_twice(some: list[Device], claims: list[ResourceClaim]) -> None:
    place, usage = place_with(some), Usage()
    compiler = Compiler([device_class()])
    given_away: list[Pick] = []

    for each in claims:
        found = Search([compiler.compiled_claim(each.spec)], place, usage).run(None)
        for pick in found.picks if found else ():
            usage.take(pick.device, pick.shares)
            given_away.append(pick)

    holders = Counter(pick.device for pick in given_away)
    assert all(count == 1 for held, count in holders.items() if not held.is_shared)
    shares: Counter[tuple[PoolDevice, str]] = Counter()
    for pick in given_away:
        for name, amount in pick.shares:
            shares[pick.device, name] += amount
    assert all(total <= held.capacity[name].value for (held, name), total in shares.items())
    drawn: Counter[object] = Counter()
    for held in holders:
        for counter, amount in held.draws:
            drawn[counter] += amount
            assert drawn[counter] <= counter.limit


@settings(max_examples=80, deadline=None)
@given(devices(), resource_claims())
def test_what_is_given_is_what_was_asked_for(some: list[Device], wanted: ResourceClaim) -> None:
    compiled = Compiler([device_class()]).compiled_claim(wanted.spec)

    found = Search([compiled], place_with(some), Usage()).run(None)

    if found is None:
        return
    for request in compiled.requests:
        (option,) = {p.option for p in found.picks if p.option in request.options}
        picks = [pick for pick in found.picks if pick.option is option]
        assert all(option.shares_of(pick.device) == pick.shares for pick in picks)
        assert option.count is None or option.count == len(picks)
    if compiled.matches:
        assert 1 == len({pick.device.attributes["gpu.test/kind"] for pick in found.picks})


@settings(max_examples=80, deadline=None)
@given(
    st.lists(SMALL, max_size=5),
    st.lists(st.tuples(st.integers(1, 2), SMALL), min_size=1, max_size=3),
    st.booleans(),
)
def test_an_assignment_is_found_if_there_is_one(
    kinds: list[int], wanted: list[tuple[int, int]], must_agree: bool
) -> None:
    some = [device(f"d{n}", {"kind": kind}) for n, kind in enumerate(kinds)]
    asked = [
        exactly(f"r{n}", count, f'device.attributes["gpu.test"].kind <= {highest}')
        for n, (count, highest) in enumerate(wanted)
    ]
    constraints = [alike("gpu.test/kind")] if must_agree else []
    compiled = Compiler([device_class()]).compiled_claim(
        claim("c", *asked, constraints=constraints).spec
    )

    found = Search([compiled], place_with(some), Usage()).run(None)

    possible = any(
        not must_agree or len({kinds[n] for n in chosen}) <= 1
        for chosen in assignments(kinds, wanted, frozenset())
    )
    assert possible == isinstance(found, Found)


def assignments(
    kinds: Sequence[int], wanted: Sequence[tuple[int, int]], taken: frozenset[int]
) -> Iterator[frozenset[int]]:
    """Every way to give different devices to all requests."""
    if not wanted:
        yield taken
        return
    count, highest = wanted[0]
    suitable = [n for n, kind in enumerate(kinds) if kind <= highest and n not in taken]
    for chosen in combinations(suitable, count):
        yield from assignments(kinds, wanted[1:], taken | frozenset(chosen))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=8),
    st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True),
    st.integers(0, 3),
)
def test_no_node_is_planned_to_hold_more_claims_than_it_has_devices(
    counts: list[int], sizes: list[int], spare: int
) -> None:
    types = [
        with_devices(f"t{size}", *(device(f"gpu-{n}") for n in range(size)), cpu="64")
        for size in sizes
    ]
    slices = [published([device(f"net-{n}") for n in range(spare)])]
    claims = [claim(f"c{n}", exactly(count=count)) for n, count in enumerate(counts)]
    by_pod = {f"default/p{n}": count for n, count in enumerate(counts)}

    answer = placed_with(
        [user(f"p{n}", f"c{n}") for n in range(len(counts))],
        {"claims": claims, "slices": slices},
        types=types,
    )

    devices_of = {f"t{size}": size for size in sizes}
    beyond = 0
    for planned in answer.claims:
        fewest = min(devices_of[name] for name in planned.instance_types)
        beyond += max(0, sum(by_pod[name] for name in planned.pods) - fewest)
    assert beyond <= spare

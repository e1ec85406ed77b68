"""The waiting line in front of the models: who goes in, who waits, who is refused."""

from hypothesis import given
from hypothesis import strategies as st

from unsay.budget.limits import WaitQueue


def line(*tickets: int, place_count: int = 2, max_waiting: int = 2) -> WaitQueue:
    """A line that these joined, in order."""
    queue = WaitQueue(places=place_count, max_waiting=max_waiting)
    for ticket in tickets:
        queue = queue.joined(ticket)
    return queue


def test_the_first_are_in_the_next_wait_the_rest_are_refused() -> None:
    """In the order of coming."""
    full = line(1, 2, 3, 4, 5)

    assert ["running", "running", "waiting", "waiting", "refused"] == [
        full.reception(ticket) for ticket in range(1, 6)
    ]
    assert line(1, 2, 3, 4) == full


def test_who_waits_longest_moves_up() -> None:
    """One place that becomes free is one who goes in."""
    queue = line(1, 2, 3, 4).left(2)

    assert (frozenset({1, 3}), (4,)) == (queue.running, queue.waiting)


def test_who_gives_up_frees_a_place_in_the_queue() -> None:
    """No caller enters for it."""
    queue = line(1, 2, 3, 4).left(3)

    assert (frozenset({1, 2}), (4,)) == (queue.running, queue.waiting)
    assert "waiting" == queue.joined(5).reception(5)


def test_a_queue_without_places_refuses_whoever_does_not_get_in() -> None:
    """No caller waits."""
    assert "refused" == line(1, 2, place_count=1, max_waiting=0).reception(2)


def test_who_is_not_there_cannot_leave() -> None:
    """Nothing changes."""
    assert line(1, 2, 3) == line(1, 2, 3).left(9)


@given(
    place_count=st.integers(1, 4),
    max_waiting=st.integers(0, 4),
    steps=st.lists(st.integers(0, 60) | st.none(), max_size=60),
)
def test_nobody_is_lost_and_nobody_overtakes(
    place_count: int, max_waiting: int, steps: list[int | None]
) -> None:
    """For any arrivals: the bounds hold, free places are filled, and the first to come is first."""
    queue = WaitQueue(places=place_count, max_waiting=max_waiting)
    present = list[int]()
    entry_order = list[int]()
    for ticket, step in enumerate(steps):
        running = queue.running
        if step is None or not present:
            queue = queue.joined(ticket)
            is_refused = queue.reception(ticket) == "refused"
            assert is_refused == (len(present) == place_count + max_waiting)
            present += [] if is_refused else [ticket]
        else:
            leaver = present.pop(step % len(present))
            queue = queue.left(leaver)
        entry_order += sorted(queue.running - running)
        assert set(present) == queue.running | set(queue.waiting)
        assert len(queue.running) == min(place_count, len(present))
        assert len(queue.waiting) <= max_waiting
    assert sorted(entry_order) == entry_order
    assert len(set(entry_order)) == len(entry_order)

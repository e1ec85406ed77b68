"""The checkpoints of a thread."""

from itertools import pairwise
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.errors import (
    AmbiguousCheckpointError,
    CheckpointExistsError,
    ConflictError,
    InvalidNameError,
    UnknownCheckpointError,
)
from unsay.history.checkpoints import (
    NAMED_LIMIT,
    add_checkpoint,
    by_age,
    check_name,
    find_checkpoint,
    make_checkpoint,
    thin,
)
from unsay.types import Checkpoint


def new_checkpoint(
    message_id: str, *, name: str | None = None, score: float | None = 0.9, turn: int = 1
) -> Checkpoint:
    """A checkpoint as it is made."""
    return make_checkpoint(
        message_id=message_id,
        turn=turn,
        score=score,
        topic="Kyoto",
        reason="score",
        created_at="2026-01-01T00:00:00+00:00",
        name=name,
    )


def checkpoint_with_id(
    ident: str, name: str | None = None, message_id: str | None = "m"
) -> Checkpoint:
    """A checkpoint with an id chosen for a test."""
    return {**new_checkpoint("m", name=name), "id": ident, "message_id": message_id}


def test_a_checkpoint_is_named_by_its_message() -> None:
    """The id follows from the message alone, so a node run twice makes one checkpoint."""
    assert Checkpoint(
        id="cp-2c26b46b68",
        name="before lunch",
        message_id="foo",
        turn=1,
        score=0.9,
        topic="Kyoto",
        reason="score",
        created_at="2026-01-01T00:00:00+00:00",
    ) == new_checkpoint("foo", name="before lunch")
    assert new_checkpoint("foo", score=None)["id"] == new_checkpoint("foo")["id"]
    assert new_checkpoint("\ud83d")["id"] != new_checkpoint("foo")["id"]


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        pytest.param("a", "a", id="one character"),
        pytest.param("  before lunch ", "before lunch", id="blanks around"),
        pytest.param("昼食の前　です", "昼食の前　です", id="japanese with a wide blank"),
        pytest.param("x" * 64, "x" * 64, id="longest"),
        pytest.param("a/b", "a/b", id="a slash inside"),
        pytest.param("👩‍💻", "👩‍💻", id="a joined emoji"),
    ],
)
def test_good_names_are_taken(given_name: str, name: str) -> None:
    """A name is kept as it is, but for blanks around it."""
    assert name == check_name(given_name)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", id="empty"),
        pytest.param(" \t\n", id="blank"),
        pytest.param("　", id="a wide blank"),
        pytest.param("x" * 65, id="too long"),
        pytest.param("/undo", id="a command"),
        pytest.param("a\nb", id="two lines"),
        pytest.param("a\x00b", id="a null"),
        pytest.param("a\x1b[31mb", id="an escape"),
        pytest.param("a\x7fb", id="a delete"),
        pytest.param("a\x9bb", id="an escape of eight bits"),
        pytest.param("a\u2028b", id="a line separator"),
        pytest.param("a\ud83db", id="half a character"),
    ],
)
def test_bad_names_are_refused(name: str) -> None:
    """A name that would break a list, a terminal or a command is refused."""
    with pytest.raises(InvalidNameError, match="is not a name for a checkpoint: use 1 to 64"):
        check_name(name)


@given(st.text())
def test_a_name_taken_is_taken_again(name: str) -> None:
    """A checked name is one line, and checking it again changes nothing."""
    try:
        new_name = check_name(name)
    except InvalidNameError:
        return
    assert [new_name] == new_name.splitlines()
    assert new_name == check_name(new_name)
    new_name.encode()


def add_bounded(checkpoints: list[Checkpoint], new: Checkpoint, limit: int) -> list[Checkpoint]:
    """The checkpoints with one more, and at most `limit` unnamed ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unsay.history.checkpoints.UNNAMED_LIMIT", limit)
        return add_checkpoint(checkpoints, new)


def test_checkpoints_of_one_turn_are_thinned_oldest_first() -> None:
    """Past the limit the oldest of those that lie no turn apart go; named ones stay."""
    checkpoints: list[Checkpoint] = []
    for index in range(6):
        new = new_checkpoint(f"m{index}", name="kept" if index == 1 else None)
        checkpoints = add_bounded(checkpoints, new, 3)

    assert ["m1", "m3", "m4", "m5"] == [item["message_id"] for item in checkpoints]


TURNS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([None, None, None, "named"])), max_size=60
)
"""How many turns lie between one checkpoint and the next, and whether it has a name."""


def along(steps: list[tuple[int, str | None]]) -> list[Checkpoint]:
    """Checkpoints of a thread, oldest first."""
    turn = 1
    checkpoints = []
    for index, (step, name) in enumerate(steps):
        turn += step
        checkpoints.append(new_checkpoint(f"m{index}", turn=turn, name=name and f"{name} {index}"))
    return checkpoints


@given(steps=TURNS, branch=st.integers(0, 60), limit=st.integers(1, 9))
def test_thinning_gives_the_same_whenever_it_runs(
    steps: list[tuple[int, str | None]], branch: int, limit: int
) -> None:
    """At once, in two parts or after each checkpoint: the same ones stay, and none returns."""
    marks = along(steps)
    thin_marks = thin(marks, limit=limit)
    grown: list[Checkpoint] = []
    removed_ids: set[str] = set()
    for mark in marks:
        before = grown
        grown = add_bounded(grown, mark, limit)
        removed_ids |= {c["id"] for c in before} - {c["id"] for c in grown}
        assert not removed_ids & {c["id"] for c in grown}

    assert thin_marks == grown
    assert thin_marks == thin([*thin(marks[:branch], limit=limit), *marks[branch:]], limit=limit)
    assert thin_marks == thin(thin_marks, limit=limit)


@given(steps=TURNS, limit=st.integers(1, 9))
def test_what_has_a_name_and_what_is_recent_stays(
    steps: list[tuple[int, str | None]], limit: int
) -> None:
    """No named checkpoint goes, none of the newest half, and none at all before it must."""
    marks = along(steps)
    thin_marks = thin(marks, limit=limit)
    unnamed_marks = [mark for mark in marks if mark["name"] is None]

    assert [mark for mark in marks if mark["name"]] == [item for item in thin_marks if item["name"]]
    assert (
        unnamed_marks[-((limit + 1) // 2) :]
        == [c for c in thin_marks if not c["name"]][-((limit + 1) // 2) :]
    )
    assert min(limit, len(unnamed_marks)) == sum(item["name"] is None for item in thin_marks)
    assert thin_marks == [mark for mark in marks if mark in thin_marks]


def test_older_checkpoints_lie_ever_farther_apart() -> None:
    """After a thousand turns half of them are the newest, the others reach back hundreds of turns."""
    thin_marks = thin([new_checkpoint(f"m{turn}", turn=turn) for turn in range(1, 1001)], limit=32)
    ages = [1000 - item["turn"] for item in thin_marks]
    gaps = [older - newer for older, newer in pairwise(ages)]

    assert list(range(15, -1, -1)) == ages[16:]
    assert ages[0] > 500
    assert all(gap <= 1 + age for gap, age in zip(gaps, ages[1:], strict=True))
    assert sum(gaps[:4]) > 4 * sum(gaps[8:12])


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        pytest.param((None, None), ("a", 0.4), ("a", 0.4), id="adds name and score"),
        pytest.param(("a", 0.9), (None, None), ("a", 0.9), id="takes nothing away"),
        pytest.param(("a", 0.9), (None, 0.4), ("a", 0.9), id="keeps the first score"),
        pytest.param(("a", 0.0), (None, 0.4), ("a", 0.0), id="keeps a score of nought"),
        pytest.param(("a", 0.9), ("a", 0.4), ("a", 0.9), id="same name again"),
        pytest.param(("a", 0.9), ("b", 0.4), ("b", 0.9), id="another name renames it"),
    ],
)
def test_a_second_checkpoint_at_a_message_joins_the_first(
    first: tuple[Any, Any], second: tuple[Any, Any], both: tuple[Any, Any]
) -> None:
    """One message has one checkpoint, in its old place, with what either had."""
    name, score = first
    before = [
        new_checkpoint("m0", name="other"),
        new_checkpoint("m1", name=name, score=score),
        new_checkpoint("m2"),
    ]
    after = add_checkpoint(before, new_checkpoint("m1", name=second[0], score=second[1]))

    assert [before[0], new_checkpoint("m1", name=both[0], score=both[1]), before[2]] == after


def test_a_name_has_one_checkpoint() -> None:
    """A name that another message has is refused."""
    with pytest.raises(CheckpointExistsError, match="named 'a' exists already"):
        add_checkpoint([new_checkpoint("m0", name="a")], new_checkpoint("m1", name="a"))


def test_named_checkpoints_have_a_limit() -> None:
    """One name more than the limit is refused, an unnamed checkpoint is not."""
    full = [new_checkpoint(f"m{index}", name=f"n{index}") for index in range(NAMED_LIMIT)]

    with pytest.raises(ConflictError, match="has 200 named"):
        add_checkpoint(full, new_checkpoint("new", name="one more"))
    assert [*full, new_checkpoint("new")] == add_checkpoint(full, new_checkpoint("new"))


@given(
    names=st.lists(st.tuples(st.integers(0, 9), st.sampled_from([None, "a", "b"])), max_size=20),
    limit=st.integers(min_value=1, max_value=4),
)
def test_lists_stay_bounded(names: list[tuple[int, str | None]], limit: int) -> None:
    """Never more unnamed ones than the limit, never a message or a name twice, the newest kept."""
    checkpoints: list[Checkpoint] = []
    for position, name in names:
        new = new_checkpoint(f"m{position}", name=name)
        try:
            checkpoints = add_bounded(checkpoints, new, limit)
        except CheckpointExistsError:
            continue
        assert [new["id"]] == [
            item["id"] for item in checkpoints if item["message_id"] == f"m{position}"
        ]
        message_ids = [c["message_id"] for c in checkpoints]
        kept_names = [c["name"] for c in checkpoints if c["name"]]
        assert len(set(message_ids)) == len(message_ids)
        assert len(set(kept_names)) == len(kept_names)
        assert len(checkpoints) - len(kept_names) <= limit


CHECKPOINTS = [
    checkpoint_with_id("cp-aa11", "lunch"),
    checkpoint_with_id("cp-aa22"),
    checkpoint_with_id("cp-bb33", "cp-aa22"),
    checkpoint_with_id("cp-bb"),
]


@pytest.mark.parametrize(
    ("reference", "index"),
    [
        pytest.param("lunch", 0, id="name"),
        pytest.param(" lunch ", 0, id="name with blanks"),
        pytest.param("cp-aa11", 0, id="id"),
        pytest.param("cp-aa1", 0, id="beginning"),
        pytest.param("cp-aa22", 2, id="a name before an id"),
        pytest.param("cp-bb", 3, id="an id before a beginning"),
    ],
)
def test_a_checkpoint_is_found(reference: str, index: int) -> None:
    """By its name, else its id, else the beginning of its id."""
    assert CHECKPOINTS[index] == find_checkpoint(CHECKPOINTS, reference)


@given(st.text("がくしゅうガé한a", min_size=1, max_size=9), st.sampled_from(["NFC", "NFD"]))
def test_a_name_is_the_same_in_parts(name: str, form: Any) -> None:
    """A keyboard may type a letter and its mark apart; stored names may have either form."""
    typed_name = normalize(form, name)
    other_form = normalize("NFD" if form == "NFC" else "NFC", name)
    checkpoint = new_checkpoint("m1", name=other_form)

    assert checkpoint == find_checkpoint([checkpoint], typed_name)
    assert check_name(typed_name) == check_name(other_form)
    with pytest.raises(CheckpointExistsError):
        add_checkpoint([checkpoint], new_checkpoint("m2", name=typed_name))


@pytest.mark.parametrize(
    ("checkpoints", "reference", "error", "message"),
    [
        pytest.param(
            CHECKPOINTS,
            "cp-a",
            AmbiguousCheckpointError,
            "2 checkpoint ids begin with 'cp-a': cp-aa11 (lunch), cp-aa22; give more of the id",
            id="two begin so",
        ),
        pytest.param(
            CHECKPOINTS[:2],
            "dinner",
            UnknownCheckpointError,
            "This thread has no checkpoint 'dinner'; the newest: cp-aa11 (lunch), cp-aa22",
            id="unknown",
        ),
        pytest.param(
            CHECKPOINTS[:1],
            " ",
            UnknownCheckpointError,
            "This thread has no checkpoint ' '; the newest: cp-aa11 (lunch)",
            id="nothing is the beginning of none",
        ),
        pytest.param(
            CHECKPOINTS[:1],
            "lunc",
            UnknownCheckpointError,
            "This thread has no checkpoint 'lunc'; the newest: cp-aa11 (lunch)",
            id="a name's beginning is not enough",
        ),
        pytest.param(
            [],
            "x",
            UnknownCheckpointError,
            "This thread has no checkpoint 'x'; it has none yet",
            id="none at all",
        ),
    ],
)
def test_a_reference_to_none_or_many_is_refused(
    checkpoints: list[Checkpoint], reference: str, error: type[Exception], message: str
) -> None:
    """The message lists the choices."""
    with pytest.raises(error) as raises:
        find_checkpoint(checkpoints, reference)

    assert message == str(raises.value)


def test_the_newest_checkpoints_are_listed() -> None:
    """A long list is cut to the ten newest."""
    checkpoints = [checkpoint_with_id(f"cp-{index:02}") for index in range(12)]

    with pytest.raises(UnknownCheckpointError) as raises:
        find_checkpoint(checkpoints, "none")

    assert ", ".join(f"cp-{index:02}" for index in range(2, 12)) in str(raises.value)
    assert "cp-01" not in str(raises.value)


def test_age_is_the_place_on_the_record() -> None:
    """Checkpoints up to a place, the newest first; those off the transcript are left out."""
    positions: dict[str | None, int] = {"m0": 0, "m1": 1, "m2": 2}
    message_ids = ["m1", "m0", "gone", "m2", None]
    checkpoints = [checkpoint_with_id(f"cp-{item}", message_id=item) for item in message_ids]

    def ids_by_age(before: int) -> list[str | None]:
        return [item["message_id"] for item in by_age(checkpoints, positions, through=before)]

    assert [[], ["m0"], ["m1", "m0"], ["m2", "m1", "m0"], ["m2", "m1", "m0"]] == [
        ids_by_age(before) for before in (-1, 0, 1, 2, 9)
    ]

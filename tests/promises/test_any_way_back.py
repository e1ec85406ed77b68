"""Any mix of going back and forth, against a plain model of lists."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.events.events_kit import as_stored
from tests.graph.back_kit import SHIFTS
from tests.graph.kit import Numbered, config, scores
from tests.graph.test_event_log_of_the_graph import check_events
from tests.reading import (
    branches,
    checkpoints,
    expanded_topics,
    redo_depth,
    topics,
    undo_depth,
)
from unsay.conversation.conversation import Conversation
from unsay.errors import (
    ConflictError,
    InputError,
    NothingToRedoError,
    NothingToUndoError,
    UnknownBranchError,
    UnknownThreadError,
)
from unsay.transcript.live import OPERATIONS

WORDS = ("What is a list?", "NEW: how is the weather?", "京都について教えて", "新しい話題です")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "say",
                "say",
                "undo",
                "undo",
                "redo",
                "redo",
                "rollback",
                "restore",
                "message",
                "pick",
                "retry",
                "expand",
                "same",
                "reopen",
            ]
        ),
        st.integers(min_value=0, max_value=5),
    ),
    max_size=12,
)


class Model:
    """What a conversation must be: lists of all it was, behind it and before it."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.past: list[Any] = []
        self.future: list[Any] = []
        self.here = self.seen()

    def seen(self) -> Any:
        """The conversation now."""
        return (
            as_stored(self.conversation.messages()),
            checkpoints(self.conversation),
            [(run.label, run.start) for run in topics(self.conversation)],
            sorted(topic["topic_id"] for topic in expanded_topics(self.conversation)),
        )

    def went_on(self) -> None:
        """A new step was made."""
        self.past.append(self.here)
        self.future = []
        self.here = self.seen()

    def undo(self) -> None:
        """The newest step was taken back."""
        self.future.append(self.here)
        self.here = self.past.pop()

    def redo(self) -> None:
        """It was made again."""
        self.past.append(self.here)
        self.here = self.future.pop()


def perform(model: Model, verb: str, number: int) -> None:
    """One step of the conversation and of the model."""
    conversation = model.conversation
    transcript = conversation.messages() if conversation.graph.get_state(config("t")).values else []
    names = (
        [branch.id for branch in conversation.branches() if branch.id.startswith("branch-")]
        if transcript
        else []
    )
    ids = [m.id for branch in branches(conversation) if branch.id in names for m in branch.messages]
    answers = [m.id for m in transcript if m.type == "ai"]
    topics = [f"topic-{number + 1}"]
    doings: dict[str, tuple[list[Any], Callable[[Any], Any]]] = {
        "rollback": (transcript, lambda _: conversation.rollback(turns=number + 1)),
        "restore": (names, conversation.restore),
        "message": (ids, conversation.restore),
        "pick": (answers, lambda name: conversation.pick([name], "t")),
        "retry": (transcript, lambda _: conversation.retry()),
        "expand": (topics, conversation.restore),
        "same": ([""], lambda _: conversation.same_topic()),
    }
    choices, do = doings[verb]
    if choices:
        do(choices[number % len(choices)])
        model.went_on()


REFUSED = (
    ConflictError,
    NothingToUndoError,
    NothingToRedoError,
    UnknownBranchError,
    UnknownThreadError,
    InputError,
)


@given(steps=STEPS)
def test_any_way_through_a_conversation(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """Undo and redo are exact over any operations; the event log agrees; the state is bounded."""
    file = tmp_path_factory.mktemp("talk") / "t.db"
    judge = scores(0.9, 0.6, 0.1, 0.9, 0.1, 0.1, 0.6)
    model_of_thread = Numbered()

    def start() -> Conversation:
        settings = {"checkpoint_on": ["score"]}
        return Conversation.open(
            file, thread="t", model=model_of_thread, judge=judge, detector=SHIFTS, settings=settings
        )

    model = Model(start())
    for verb, number in steps:
        conversation = model.conversation
        try:
            if verb == "say":
                conversation.say(WORDS[number % len(WORDS)])
                model.went_on()
            elif verb in ("undo", "redo"):
                getattr(conversation, verb)()
                getattr(model, verb)()
            elif verb == "reopen":
                conversation.close()
                model.conversation = start()
            else:
                perform(model, verb, number)
        except REFUSED:
            ends = {"undo": model.past, "redo": model.future}
            assert [] == ends.get(verb, [])
        assert model.here == model.seen(), (verb, number)
        if model.conversation.messages():
            check_events(model.conversation)
        assert undo_depth(model.conversation) <= OPERATIONS
        assert len(model.future) == redo_depth(model.conversation)
    model.conversation.close()

"""What the tests of going back and forth share: conversations, and ways to read them."""

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from tests.graph.kit import Numbered, config
from unsay.conversation.conversation import Conversation
from unsay.effects import drive
from unsay.history.branch import list_stored_branches
from unsay.history.threads import entry_of
from unsay.messages.content import text_of
from unsay.storage.base import THREADS
from unsay.testing import ScriptedDetector

Opening = Callable[..., Conversation]


SHIFTS = ScriptedDetector(shifts={"NEW": "new", "新しい": "new"})


JAPANESE = ("京都に行きたい。", "二日で足りますか。", "宿はどこがよいですか。")


class Paid(Numbered):
    """A model that says what it cost: 10 tokens in and 1 out for every draft."""

    def __call__(self, messages: list[BaseMessage]) -> AIMessage:
        """The next draft, with its price."""
        draft = super().__call__(messages)
        usage: Any = {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11}
        return draft.model_copy(update={"usage_metadata": usage})


def words(talk: Conversation) -> list[str]:
    """The questions of a transcript."""
    return [text_of(m) for m in talk.messages() if m.type == "human"]


def state(talk: Conversation) -> dict[str, Any]:
    """What LangGraph keeps of the thread."""
    return dict(talk.graph.get_state(config(talk.thread_id)).values)


def entry(talk: Conversation) -> Any:
    """The thread's line in the catalogue."""
    store = talk.graph.store
    assert store is not None
    item = store.get(THREADS, talk.thread_id)
    assert item is not None
    return entry_of(item)


def branch_of(talk: Conversation, kind: str) -> str:
    """The newest abandoned line of a kind."""
    return next(each.id for each in talk.branches() if each.kind == kind)


def three(opened: Opening, **options: Any) -> Conversation:
    """A conversation of three turns."""
    talk = opened(**options)
    for number in (1, 2, 3):
        talk.say(f"q{number}")
    return talk


def branches_of(talk: Conversation) -> list[Any]:
    """All branches that the store keeps, oldest first."""
    assert talk.graph.store is not None
    return drive(list_stored_branches(talk.graph.store, talk.thread_id))

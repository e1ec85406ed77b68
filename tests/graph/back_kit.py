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


def words(conversation: Conversation) -> list[str]:
    """The questions of a transcript."""
    return [text_of(m) for m in conversation.messages() if m.type == "human"]


def state(conversation: Conversation) -> dict[str, Any]:
    """What LangGraph keeps of the thread."""
    return dict(conversation.graph.get_state(config(conversation.thread_id)).values)


def entry(conversation: Conversation) -> Any:
    """The thread's line in the catalogue."""
    store = conversation.graph.store
    assert store is not None
    item = store.get(THREADS, conversation.thread_id)
    assert item is not None
    return entry_of(item)


def branch_of(conversation: Conversation, kind: str) -> str:
    """The newest abandoned line of a kind."""
    return next(each.id for each in conversation.branches() if each.kind == kind)


def three(opened: Opening, **options: Any) -> Conversation:
    """A conversation of three turns."""
    conversation = opened(**options)
    for number in (1, 2, 3):
        conversation.say(f"q{number}")
    return conversation


def branches_of(conversation: Conversation) -> list[Any]:
    """All branches that the store keeps, oldest first."""
    assert conversation.graph.store is not None
    return drive(list_stored_branches(conversation.graph.store, conversation.thread_id))

"""What the tests of going back and forth share: conversations, and ways to read them."""

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from tests.graph.kit import Numbered
from unsay.conversation.conversation import Conversation
from unsay.history.threads import entry_of
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


def entry(conversation: Conversation) -> Any:
    """The thread's entry in the registry."""
    store = conversation.graph.store
    assert store is not None
    item = store.get(THREADS, conversation.thread_id)
    assert item is not None
    return entry_of(item)


def three(open_thread: Opening, **options: Any) -> Conversation:
    """A conversation of three turns."""
    conversation = open_thread(**options)
    for number in (1, 2, 3):
        conversation.say(f"q{number}")
    return conversation

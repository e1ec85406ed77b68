"""The chat's bottom line: topic, use of the budgets, use of the context."""

from unsay.cli.strings import Labels
from unsay.conversation.conversation import Conversation
from unsay.errors import UnsayError
from unsay.operations.usage_report import percent, window_head

BETWEEN = " · "


def status_of(conversation: Conversation, words: Labels) -> str:
    """Return the chat's bottom line: the topic, and the use of the budgets and the context window.

    The context is last, because its text is the longest and a narrow terminal cuts the end off.
    For a thread without answers, or one that cannot be read, it is the thread's id.
    """
    try:
        status = conversation.status()
    except UnsayError:
        return conversation.thread_id
    if status.window is None:
        return conversation.thread_id
    parts = [words.topic.format(label=status.topic)] if status.topic else []
    for gauge in status.gauges:
        layer, share = words.tokens_names[gauge.layer], percent(gauge.used, gauge.limit, words)
        parts.append(words.budget.format(layer=layer, share=share))
    parts.append(window_head(status.window, words))
    return BETWEEN.join(parts)

"""The chat's bottom line: topic, use of the budgets, use of the context."""

from unsay.cli.strings import Labels
from unsay.cli.terminal import columns
from unsay.conversation.conversation import Conversation
from unsay.conversation.tree import one_line
from unsay.errors import UnsayError
from unsay.messages.content import cells_of
from unsay.operations.usage_report import percent, window_head

BETWEEN = " · "
# The topic keeps this many columns, also where the figures then do not fit.
LEAST_TOPIC = 8


def status_of(conversation: Conversation, words: Labels) -> str:
    """Return the chat's bottom line: the topic, and the use of the budgets and the context window.

    A long topic is cut so that the figures fit. The context is last, because its text is the longest
    and a narrow terminal cuts the end off. For a thread without answers, or one that cannot be read,
    the line is the thread's id.
    """
    try:
        status = conversation.status()
    except UnsayError:
        return conversation.thread_id
    if status.window is None:
        return conversation.thread_id
    figures = []
    for gauge in status.gauges:
        layer, share = words.tokens_names[gauge.layer], percent(gauge.used, gauge.limit, words)
        figures.append(words.budget.format(layer=layer, share=share))
    figures.append(window_head(status.window, words))
    if not status.topic:
        return BETWEEN.join(figures)
    others = BETWEEN.join([words.topic.format(label=""), *figures])
    label = one_line(status.topic, max(LEAST_TOPIC, columns() - 1 - cells_of(others)))
    return BETWEEN.join([words.topic.format(label=label), *figures])

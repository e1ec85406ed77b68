"""The chat's bottom line: topic, use of the budgets, use of the context."""

from unsay.budget.limits import Gauge
from unsay.cli.strings import Labels
from unsay.cli.terminal import columns
from unsay.conversation.conversation import Conversation
from unsay.conversation.tree import one_line
from unsay.errors import UnsayError
from unsay.messages.content import cells_of
from unsay.operations.usage_report import percent, window_head

BETWEEN = " · "
# A topic with less room than these columns is left out.
LEAST_TOPIC = 8


def status_of(conversation: Conversation, words: Labels) -> str:
    """Return the chat's bottom line: the topic, and the use of the budgets and the context window.

    A long topic is cut so that the figures fit, and left out if there is no room for it. The context
    is last, because its text is the longest and a narrow terminal cuts the end off. For a thread
    without answers, or one that cannot be read, the line is the thread's id.
    """
    try:
        status = conversation.status()
    except UnsayError:
        return conversation.thread_id
    if status.window is None:
        return conversation.thread_id
    budgets = [_budget(gauge, words) for gauge in status.gauges]
    context, no_topic = window_head(status.window, words), words.topic.format(label="")
    room = columns() - 1 - cells_of(BETWEEN.join([no_topic, *budgets, context]))
    # What stands in brackets may be cut off; a figure that is cut in half would mislead.
    least = room + cells_of(context) - cells_of(context.partition("(")[0])
    if not status.topic or least <= LEAST_TOPIC:
        return BETWEEN.join([*budgets, context])
    label = one_line(status.topic, max(LEAST_TOPIC, room))
    return BETWEEN.join([words.topic.format(label=label), *budgets, context])


def _budget(gauge: Gauge, words: Labels) -> str:
    share = percent(gauge.used, gauge.limit, words)
    return words.budget.format(layer=words.tokens_names[gauge.layer], share=share)

"""Whether a summary tells what was said: the request of a judge."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from unsay.context.summaries import SHORTEST, lines_of
from unsay.prompts.catalogue import Fence
from unsay.prompts.texts import Texts

MATERIAL_CHARS = 48_000
"""How much of what was said a judge is shown; of longer messages the middles are left out."""


def summary_request(messages: Sequence[AnyMessage], summary: str, texts: Texts) -> list[AnyMessage]:
    """The messages that ask a judge for a verdict on one summary.

    All of both is fenced; `verdicts.verdict_of` reads the reply.

    Args:
        messages: For which the summary stands, oldest first; not changed.
        summary: As views show it.
        texts: Of the conversation's language.
    """
    lines = [line for each in messages for line in lines_of(each)]
    chars = max(SHORTEST, MATERIAL_CHARS // max(len(lines), 1))
    said = "\n".join(_middle_out(line, chars) for line in lines)
    fence = Fence.around(said, summary)
    parts = [fence.mark("conversation", said), fence.mark("summary", summary)]
    request = texts.summary_judge_request.format(material="\n".join(parts))
    return [SystemMessage(texts.summary_judge_system), HumanMessage(request)]


def _middle_out(line: str, chars: int) -> str:
    if len(line) <= chars:
        return line
    half = chars // 2
    return f"{line[:half]} … {line[-half:]}"

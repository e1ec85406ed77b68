"""Hypothesis strategies for transcripts: those that hold together, and those that do not.

They draw little, so that a property over whole transcripts stays quick.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from unsay.messages.annotations import DOCUMENT, notice

WORDS = ("hello", "What is a decorator?", "日本の首都は?", "はい、東京です。", "a\n\nb", "👍 fine")
TOOLS = ("search", "get_weather", "lookup-2")
PIXEL = "data:image/png;base64,iVBORw0KGgo="
IMAGE = {"type": "image_url", "image_url": {"url": PIXEL}}
SIGNED = {"type": "thinking", "thinking": "let me think", "signature": "c2ln"}
REDACTED = {"type": "redacted_thinking", "data": "b3BhcXVl"}
REASONED = {
    "type": "reasoning_content",
    "reasoning_content": {"text": "let me think", "signature": "c2ln"},
}
UNSIGNED = {"type": "thinking", "thinking": "a stranger's thought"}
FOREIGN = {"type": "reasoning", "reasoning": "another's thought"}

WILD_IDS = ("a", "b", "c", "", "call 1!", "呼び出し", "x" * 70, "a-2")
WILD_TOOLS = ("search", "天気", "get weather", "", "y" * 80, "2fast")
WILD_WORDS = (*WORDS, "", "   ", "\n", "well \n")
AUTHORS = (None, None, "anthropic", "bedrock_converse", "google_genai", "openai")

Draw = Callable[[st.SearchStrategy], object]


@dataclass(kw_only=True)
class _Writer:
    """A transcript as it grows; ids count up."""

    draw: Draw
    thoughts: Sequence[dict]
    messages: list[AnyMessage] = field(default_factory=list)
    called: int = 0

    def add(self, message: AnyMessage) -> None:
        message.id = f"m{len(self.messages)}"
        self.messages.append(message)

    def words(self) -> str:
        return self.draw(st.sampled_from(WORDS))

    def ask(self) -> None:
        """The user's words, now and then with an image or documents."""
        for _ in range(self.draw(st.sampled_from((0, 0, 0, 1, 2)))):
            self.add(HumanMessage("A page that was found.", name=DOCUMENT))
        has_image = self.draw(st.sampled_from((False, False, False, True)))
        text = self.words()
        self.add(HumanMessage([{"type": "text", "text": text}, IMAGE] if has_image else text))

    def content(self, text_after_thinking: str) -> str | list:
        """Words after thinking, where the transcript has any."""
        if not self.thoughts:
            return text_after_thinking
        text = [{"type": "text", "text": text_after_thinking}] if text_after_thinking else []
        return [self.draw(st.sampled_from(self.thoughts)), *text]

    def step(self) -> None:
        """Calls in one message, and a result for each; some fail."""
        count = self.draw(st.sampled_from((1, 1, 2, 3)))
        ids = [f"call_{self.called + nth}" for nth in range(count)]
        self.called += count
        name = self.draw(st.sampled_from(TOOLS))
        calls = [{"id": call_id, "name": name, "args": {"q": "x"}} for call_id in ids]
        text = self.draw(st.sampled_from(("", "Let me look.")))
        self.add(AIMessage(self.content(text), tool_calls=calls))
        for call_id in self.draw(st.permutations(ids)) if count > 1 else ids:
            failed = self.draw(st.sampled_from((False, False, True)))
            status = "error" if failed else "success"
            self.add(ToolMessage("found 3", tool_call_id=call_id, name=name, status=status))

    def answer(self) -> None:
        """The assistant's final words."""
        self.add(AIMessage(self.content(self.words())))


@st.composite
def valid_transcripts(
    draw: Draw,
    *,
    min_turns: int = 0,
    max_turns: int = 4,
    thinking: bool | None = None,
    thoughts: Sequence[dict] = (SIGNED, REDACTED),
    notices: bool = False,
    pending: bool | None = None,
) -> list[AnyMessage]:
    """Transcripts that every provider accepts once a view is made of them.

    Args:
        draw: Hypothesis hands it in.
        min_turns: Of the user, at least.
        max_turns: Of the user, at most.
        thinking: Whether every assistant message begins with signed thinking; drawn by default.
        thoughts: The blocks of thinking to draw from.
        notices: Whether unsay's own notices may stand between turns.
        pending: Whether the last question is still to be answered; drawn by default.
    """
    thinks = draw(st.booleans()) if thinking is None else thinking
    writer = _Writer(draw=draw, thoughts=thoughts if thinks else ())
    if draw(st.booleans()):
        writer.add(SystemMessage("Be kind."))
    for _ in range(draw(st.integers(min_turns, max_turns))):
        writer.ask()
        for _ in range(draw(st.sampled_from((0, 0, 1, 2)))):
            writer.step()
        writer.answer()
        if notices and draw(st.booleans()):
            writer.add(HumanMessage("/undo"))
            message_id = writer.messages[-1].id or ""
            writer.add(notice("Nothing to undo.", "", [message_id]))
    if draw(st.booleans()) if pending is None else pending:
        writer.ask()
    return writer.messages


@st.composite
def _wild_content(draw: Draw, thoughts: Sequence[dict]) -> str | list:
    """Words, or blocks in any order, some of them empty."""
    if draw(st.sampled_from((True, True, False))):
        return draw(st.sampled_from(WILD_WORDS))
    contents = ("bare words", "", {"type": "text", "text": ""}, {"type": "text", "text": "日本語 "})
    return draw(st.lists(st.sampled_from((*thoughts, *contents)), max_size=3))


@st.composite
def _wild_call(draw: Draw) -> dict:
    call_id = draw(st.sampled_from((*WILD_IDS, None)))
    return {"id": call_id, "name": draw(st.sampled_from(WILD_TOOLS)), "args": {"q": 1}}


@st.composite
def _wild_message(draw: Draw, thoughts: Sequence[dict]) -> AnyMessage:
    kind = draw(st.sampled_from(("human", "human", "ai", "ai", "call", "tool", "tool", "system")))
    if kind in ("ai", "call"):
        calls = draw(st.lists(_wild_call(), min_size=1, max_size=3)) if kind == "call" else []
        author = draw(st.sampled_from(AUTHORS))
        return AIMessage(
            draw(_wild_content(thoughts)),
            tool_calls=calls,
            response_metadata={"model_provider": author} if author else {},
        )
    text = draw(st.sampled_from(WILD_WORDS))
    if kind == "tool":
        return ToolMessage(text, tool_call_id=draw(st.sampled_from(WILD_IDS)))
    if kind == "system":
        return SystemMessage(text)
    name = draw(st.sampled_from((None, None, DOCUMENT, "二 人")))
    content = draw(st.sampled_from((text, text, [{"type": "text", "text": text}, IMAGE])))
    return HumanMessage(content, name=name)


@st.composite
def wild_transcripts(
    draw: Draw,
    *,
    max_size: int = 10,
    thoughts: Sequence[dict] = (SIGNED, REDACTED, REASONED, UNSIGNED, FOREIGN),
) -> list[AnyMessage]:
    """Any messages in any order.

    Orphaned, doubled and missing results, ids that are missing, forbidden or
    used twice, empty words, neighbours of one role, instructions in the
    middle, thinking out of place, unsigned or another provider's.

    Args:
        draw: Hypothesis hands it in.
        max_size: Of the list.
        thoughts: The blocks of thinking to draw from.
    """
    messages = draw(st.lists(_wild_message(thoughts), max_size=max_size))
    for index, message in enumerate(messages):
        message.id = f"m{index}"
    return messages


def interrupted_transcripts() -> st.SearchStrategy[list[AnyMessage]]:
    """Valid transcripts of which messages went missing, so that steps stand half done."""
    transcripts = valid_transcripts(min_turns=1)
    return st.tuples(transcripts, st.sets(st.integers(0, 20), max_size=4)).map(
        lambda case: [m for index, m in enumerate(case[0]) if index not in case[1]]
    )

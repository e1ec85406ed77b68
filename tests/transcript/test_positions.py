"""Where a turn begins and where a rollback goes, in transcripts with commands between the turns."""

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from tests.transcript.test_branches_of_the_transcript import annotation
from unsay.errors import UnsayError
from unsay.messages.annotations import DOCUMENT, is_answer, notice
from unsay.state import State
from unsay.transcript.automatic import base_of
from unsay.transcript.live import live_branch, target_of
from unsay.transcript.pending import find_pending, open_turn

BLOCKS = st.sampled_from(("turn", "tools", "document", "command", "command", "removal"))
ENDS = st.lists(st.sampled_from(("question", "document", "command", "order")), max_size=3)


def block(kind: str, number: int) -> list[AnyMessage]:
    """Return messages; the ids of those that are a place begin with an `m`, others with an `x`."""
    question = HumanMessage("What of it?", id=f"m{number}-question")
    answer = AIMessage("It is fine.", id=f"m{number}-answer")
    call = {"id": "call", "name": "look", "args": {}}
    steps = [AIMessage("", id=f"m{number}-call", tool_calls=[call])]
    results = [ToolMessage("found", id=f"m{number}-result", tool_call_id="call")]
    document = HumanMessage("A page.", name=DOCUMENT, id=f"m{number}-page")
    command = HumanMessage("/help", id=f"x{number}-command")
    kinds: dict[str, list[AnyMessage]] = {
        "turn": [question, answer],
        "tools": [question, *steps, *results, answer],
        "document": [document, question, answer],
        "command": [command, notice("Help.", f"x{number}-notice", [f"x{number}-command"])],
        "removal": [question, notice("Removed 1 turn.", f"x{number}-notice", []), answer],
    }
    return kinds[kind]


def waiting(kind: str, number: int) -> list[AnyMessage]:
    """Return messages at the end that no answer follows; none of them is a place."""
    if kind == "command":
        return block(kind, number)
    if kind == "order":
        return [HumanMessage("/rollback", id=f"x{number}-order")]
    return [
        HumanMessage("What?", id=f"x{number}-waits", name=DOCUMENT if kind == "document" else None)
    ]


@given(blocks=st.lists(BLOCKS, max_size=6), ends=ENDS, turns=st.none() | st.integers(1, 4))
def test_a_position_is_a_message_of_the_conversation(
    blocks: list[str], ends: list[str], turns: int | None
) -> None:
    """A turn and a rollback begin behind a message that was said, never behind a command or a notice."""
    blocks_of_turn = [block(kind, number) for number, kind in enumerate(blocks)]
    blocks_of_turn += [waiting(kind, number) for number, kind in enumerate(ends, len(blocks))]
    messages = [message for block in blocks_of_turn for message in block]
    checkpoints = [annotation(m.id or "") for m in messages if is_answer(m)][: len(ends)]
    state = State(messages=messages, checkpoints=checkpoints)
    live = live_branch(state)
    entry = find_pending(messages, None)
    turn = open_turn(state, entry, "run")

    message_ids = [turn["base"], base_of(live, turn["pending"])]
    try:
        message_ids.append(target_of(live, None, turns, turn["pending"]))
    except UnsayError:
        """There are too few turns."""

    ids = [m.id for m in messages[: entry.start] if (m.id or "").startswith("m")]
    assert {(ids or [None])[-1]} == set(message_ids[:2])
    assert {*message_ids} <= {None, *ids}

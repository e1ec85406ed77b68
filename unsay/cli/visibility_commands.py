"""`unsay pin`, `unpin`, `forget`, `forgotten` and `recall`: what contexts hold and leave out."""

from collections.abc import Sequence

from unsay.cli.output import usage_error
from unsay.cli.session import Opened, on_thread
from unsay.conversation.tree import forgotten_line
from unsay.messages.content import preview, text_of
from unsay.operations.recall import finds_text
from unsay.retrieval.excerpts import speaker
from unsay.types import Forgotten, Pin


def _check_pin(*, message_id: str | None, turn: int | None) -> None:
    if message_id is not None and turn is not None:
        raise usage_error("Give a message's ID or --turn, not both.")


@on_thread(_check_pin)
def pin(opened: Opened, *, message_id: str | None, turn: int | None) -> None:
    """Pin a message or a turn, and say which."""
    before = opened.conversation.pins()
    pins = opened.conversation.pin(message_id, turn=turn)
    new = [each for each in pins if each not in before]
    opened.show(lambda: opened.texts.pinned.format(words=_words(opened, new)), pins=pins)


@on_thread(_check_pin)
def unpin(opened: Opened, *, message_id: str | None, turn: int | None) -> None:
    """Take pins off, and say which."""
    before = opened.conversation.pins()
    pins = opened.conversation.unpin(message_id, turn=turn)
    names = {each["message_id"] for each in pins}
    off = [each for each in before if each["message_id"] not in names]
    opened.show(lambda: opened.texts.unpinned.format(words=_words(opened, off)), pins=pins)


def _words(opened: Opened, pins: Sequence[Pin]) -> str:
    """Return the first words of the pinned messages."""
    names = {each["message_id"] for each in pins}
    said = (text_of(each) for each in opened.conversation.messages() if each.id in names)
    return preview(next((each for each in said if each.strip()), ""), 40)


def _check_forget(
    *, what: str | None, turn: str | None, results_below: float | None, **_others: str | None
) -> None:
    if sum(each is not None for each in (what, turn, results_below)) != 1:
        raise usage_error("Give WHAT, --turn or --results-below, one of them.")


@on_thread(_check_forget)
def forget(
    opened: Opened,
    *,
    what: str | None,
    through: str | None,
    turn: str | None,
    results_below: float | None,
    reason: str,
) -> None:
    """Forget what is named, and say what that is."""
    conversation = opened.conversation
    if results_below is None:
        entry: Forgotten | None = conversation.forget(what, through, turns=turn, reason=reason)
    else:
        entry = conversation.forget_tool_results(results_below, reason=reason)
    _show_forgotten(opened, [entry] if entry else [])


@on_thread()
def forgotten(opened: Opened) -> None:
    """Print what is forgotten, oldest first."""
    _show_forgotten(opened, opened.conversation.forgotten())


def _show_forgotten(opened: Opened, entries: Sequence[Forgotten]) -> None:
    opened.show(
        lambda: "\n".join(map(forgotten_line, entries)) or opened.texts.no_forgotten,
        forgotten=entries,
    )


@on_thread()
def recall(opened: Opened, *, words: str) -> None:
    """Print the matches; the next answer's model is shown them."""
    finds = opened.conversation.recall(words)
    rows = [
        {
            "message_id": each.message.id,
            "turn": each.turn,
            "speaker": speaker(each.message),
            "text": text_of(each.message),
            "why": each.reason.why,
            "words": list(each.reason.words),
        }
        for each in finds
    ]
    opened.show(lambda: finds_text(finds, words, opened.texts), recalled=rows)

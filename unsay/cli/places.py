"""The places that a chat can go back to, and what a rollback to one would remove."""

from collections.abc import Iterator
from dataclasses import asdict

from unsay.cli.strings import Labels
from unsay.cli.terminal import clean
from unsay.conversation.results import Preview
from unsay.conversation.timeline_data import TimelineData
from unsay.messages.content import preview, with_file_names
from unsay.operations.commands import score_text
from unsay.operations.compensation_report import stays_in_effect
from unsay.types import Checkpoint

QUESTION_CHARS = 200


def places_of(seen: TimelineData, words: Labels) -> list[tuple[str, str]]:
    """Return the places that a chat offers to roll back to, oldest first.

    Each is the text of its row and the argument of `/rollback`: a number of turns, or a
    checkpoint's id. A place is before an answered turn, or at a named checkpoint. A checkpoint
    after the last answer is left out.
    """
    answered = [turn for turn in seen.turns if turn.answer is not None]
    names = {each["name"] for each in seen.checkpoints}
    newest = answered[-1].message_id if answered else None
    marks = [each for each in seen.checkpoints if each["name"] and each["message_id"] != newest]
    places = [_checkpoint(each, words) for each in marks if not each["turn"]]
    for index, turn in enumerate(answered):
        order = str(len(answered) - index)
        if order not in names:  # a checkpoint of that name would be taken instead
            question = preview(with_file_names(turn.question), QUESTION_CHARS)
            # The score comes first: a narrow terminal cuts the end off.
            score = score_text(turn.score)
            row = words.back_turn.format(turn=turn.number, score=score, question=question)
            places.append((row, order))
        places += [_checkpoint(each, words) for each in marks if each["turn"] == turn.number]
    return places


def _checkpoint(made: Checkpoint, words: Labels) -> tuple[str, str]:
    return words.back_checkpoint.format(name=made["name"], turn=made["turn"]), made["id"]


def preview_rows(seen: Preview, words: Labels) -> Iterator[str]:
    """Yield the lines that tell a person what a rollback would remove.

    First the place and the counts. Then, where there are any, the questions (indented),
    checkpoints, tool calls and effects that cannot be undone.
    """
    tokens = {name: f"{count:,}" for name, count in asdict(seen.tokens).items()}
    counts = {"turns": seen.turns, "messages": len(seen.message_ids), **tokens}
    yield words.preview.format(where=seen.at)
    yield words.preview_removed.format(**counts)
    for question in seen.questions:
        yield (
            "  "
            + words.at_message.format(
                words=preview(with_file_names(question), QUESTION_CHARS)
            ).strip()
        )
    listed = {
        words.checkpoints: [each["name"] or each["id"] for each in seen.checkpoints],
        words.tools: list(seen.tool_calls),
        words.not_undoable: [
            each.description for each in seen.compensations if stays_in_effect(each)
        ],
    }
    for label, names in listed.items():
        if names:
            yield clean(label.format(names=", ".join(names)))

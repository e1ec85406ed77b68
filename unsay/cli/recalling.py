"""`unsay recall`: what was said that bears on some words."""

import click

from unsay.cli.moving import language_in
from unsay.cli.output import print_json, versioned
from unsay.cli.place import existing_thread
from unsay.context.recalling_text import speaker
from unsay.nodes.recalled_by_order import finds_text
from unsay.prompts.catalogue import texts
from unsay.transcript.text import text_of


def recall(*, words: str, thread: str | None, db: str | None, as_json: bool) -> None:
    """Print what was found; the next answer's model is shown it."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        finds = conversation.recall(words)
        if as_json:
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
            print_json(versioned(thread_id=found.thread_id, recalled=rows))
            return
        click.echo(finds_text(finds, words, texts(language_in(conversation))))

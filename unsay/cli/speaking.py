"""What `say` and `chat` share: the model, the conversation, the language."""

from collections.abc import Mapping
from typing import Any

from unsay.cli.labels import Labels, labels
from unsay.graph.builder import make_services
from unsay.graph.conversation import Conversation
from unsay.history.database import Database
from unsay.settings import Settings, load_settings
from unsay.transcript.text import language_of, newest_language


def settings_for(*, model: str | None, judge_model: str | None) -> Settings:
    """The settings from all sources, with the models that were named on the command line.

    Raises:
        ConfigurationError: A setting is impossible.
    """
    named: Mapping[str, Any] = {"model": model, "judge_model": judge_model}
    return load_settings({key: value for key, value in named.items() if value is not None})


def open_with_model(
    database: str | Database, thread: str | None, settings: Settings
) -> Conversation:
    """A conversation whose model is known to be configured before anything is asked.

    Raises:
        MissingModelError: None is; the message says what to set.
    """
    model = make_services(settings=settings).model
    return Conversation.open(database, thread=thread, model=model, settings=settings)


def labels_for(words: str, settings: Settings) -> Labels:
    """The notes in the language that a message is answered in."""
    return labels(language_of(words) if settings.language == "auto" else settings.language)


def labels_of(conversation: Conversation, settings: Settings) -> Labels:
    """The notes in the language of what was said last."""
    chosen = settings.language
    return labels(newest_language(conversation.messages()) if chosen == "auto" else chosen)

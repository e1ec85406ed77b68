"""Every error that unsay raises on purpose.

UnsayError
├── ConfigurationError            the developer or the operator must change a setting
│   ├── MissingModelError         no model and no key
│   └── MissingExtraError         an optional package is not installed
├── InputError                    the caller gave something that cannot be used
│   ├── EmptyMessageError
│   ├── MessageTooLongError
│   ├── InvalidNameError
│   ├── SnapshotError             a snapshot cannot be made or read as asked
│   └── TranscriptError           no provider would accept these messages
├── NotFoundError                 what was asked for does not exist
│   ├── UnknownThreadError
│   ├── UnknownCheckpointError
│   ├── UnknownTurnError          the conversation has no turn of this number
│   ├── UnknownRunError
│   ├── UnknownToolResultError
│   ├── UnknownBranchError
│   ├── UnknownContextError       it is not stored what a model was sent
│   ├── NothingToUndoError
│   │   └── NothingToResumeError  no turn was stopped, or none waits for a decision
│   └── NothingToRedoError
├── ConflictError                 it exists, but not in the state that was assumed
│   ├── AmbiguousCheckpointError
│   ├── BudgetExceededError       the call would exceed a budget of the session, task or agent
│   │   └── BudgetDeclinedError   a person was asked for more and said no
│   ├── CheckpointExistsError
│   ├── ConfirmationNeededError   a person must confirm that a tool call is undone
│   ├── EventConflictError        another event has this id
│   ├── RunConflictError          the run is not in a state that allows this
│   ├── SessionEndedError         the thread was ended for good
│   └── ThreadBusyError           another turn of the thread is under way
├── StorageError                  the operator must look at the file or the database
│   ├── DatabaseLockedError
│   ├── DatabaseCorruptError
│   ├── DatabaseTooNewError
│   ├── DatabaseTooOldError
│   └── EventLogGapError          an event is missing or was changed
└── ModelError                    the model, or the way to it, failed; the question is kept
    ├── ContextOverflowError      the prompt is longer than the model's window
    ├── ModelUnavailableError     rate limit, server error, timeout, broken connection
    │   ├── CircuitOpenError      it failed too often and gets no calls for a while
    │   └── QueueFullError        too many calls wait for the model already
    ├── ModelRefusedError         the provider rejected the request or the key
    ├── EmptyAnswerError          every draft was empty
    ├── SummarizationError        no usable summary was made
    ├── ModelReplyError           the reply is not a message
    └── ToolStepsError            the model called tools more often than allowed
"""

from collections.abc import Sequence
from typing import Any

from unsay.phrases import Phrase


class UnsayError(Phrase, Exception):
    """Base class of all errors that unsay raises on purpose; those that a person causes have a `code`."""

    answer: str | None = None
    """The model's answer, if the turn had one and it could not be saved."""

    def __init__(
        self, english: str = "", *, code: str = "", typed: str = "", **values: Any
    ) -> None:
        Phrase.__init__(self, english, code=code, typed=typed, **values)
        Exception.__init__(self, str(self))


class ConfigurationError(UnsayError):
    """A setting is missing, impossible, or contradicts another."""


class MissingModelError(ConfigurationError):
    """There is no model to answer with, or its name or key cannot be used."""


class MissingExtraError(ConfigurationError):
    """An optional package is needed for this and is not installed."""


class InputError(UnsayError):
    """The caller's input cannot be used; nothing was stored."""


class EmptyMessageError(InputError):
    """The message has no text and nothing else to answer."""


class MessageTooLongError(InputError):
    """The message is longer than 200,000 characters."""


class InvalidNameError(InputError):
    """A checkpoint, thread or turn cannot have this name: too long, not printable, or reserved."""


class SnapshotError(InputError):
    """A portable copy of a thread's state cannot be made as asked, or the given one cannot be read."""


class TranscriptError(InputError):
    """A provider would refuse these messages, or events do not give a valid transcript."""


class NotFoundError(UnsayError):
    """What was asked for does not exist; nothing was changed."""


class UnknownThreadError(NotFoundError):
    """No thread of this database has this id, or nothing was stored in it yet."""


class UnknownCheckpointError(NotFoundError):
    """No checkpoint has this name or id, or there is no answer yet at which to make one."""


class UnknownTurnError(NotFoundError):
    """The conversation has no answered turn of this number, or no turns yet."""


class UnknownRunError(NotFoundError):
    """No run of this thread has this id, or no failed request of the run is kept."""


class UnknownToolResultError(NotFoundError):
    """No tool call of this thread has this id."""


class UnknownBranchError(NotFoundError):
    """No branch, topic, message or thread has this name or id."""


class UnknownContextError(NotFoundError):
    """It is not stored what the model was sent in this turn."""


class NothingToUndoError(NotFoundError):
    """There is nothing to undo, roll back or ask again."""


class NothingToResumeError(NothingToUndoError):
    """No turn was stopped, or a decision was given and no turn waits for one."""


class NothingToRedoError(NotFoundError):
    """Nothing was undone, or a later message or step replaced what was undone."""


class ConflictError(UnsayError):
    """The request contradicts what is stored; nothing was changed."""


class ConfirmationNeededError(ConflictError):
    """A tool asks before one of its calls is undone, and there was nobody to ask."""


class AmbiguousCheckpointError(ConflictError):
    """The ids of several checkpoints begin with the given text."""


class BudgetExceededError(ConflictError):
    """The call would exceed a budget; the model was not called and nothing was spent."""


class BudgetDeclinedError(BudgetExceededError):
    """A person refused a call over the budgets named in `settings`; the model was not called."""

    def __init__(self, english: str = "", *, settings: Sequence[str] = (), **values: Any) -> None:
        super().__init__(english, **values)
        self.settings = tuple(settings)


class CheckpointExistsError(ConflictError):
    """Another checkpoint of this thread already has this name."""


class EventConflictError(ConflictError):
    """The event log has another event with this id."""


class RunConflictError(ConflictError):
    """The run's status does not allow this, it already waits for something else, or its id is taken."""


class SessionEndedError(ConflictError):
    """The thread was ended for good: it can be read, but no run may start in it."""


class ThreadBusyError(ConflictError):
    """Another writer has the thread, or took it over while this one did not renew its lease."""


class StorageError(UnsayError):
    """The file or database cannot be read or written."""


class DatabaseLockedError(StorageError):
    """Another process locked the database for longer than the timeout."""


class DatabaseCorruptError(StorageError):
    """The file is not an unsay database, or is damaged."""


class DatabaseTooNewError(StorageError):
    """A newer version of unsay wrote this database."""


class DatabaseTooOldError(StorageError):
    """An older version of unsay wrote this database, in a layout that is no longer read."""


class EventLogGapError(StorageError):
    """An event of the event log is missing or was changed."""


class ModelError(UnsayError):
    """The model gave no usable answer; the question is kept."""


class ContextOverflowError(ModelError):
    """The prompt does not fit into the model's context window."""


class ModelUnavailableError(ModelError):
    """The model could not be reached, was too slow, failed, or refused calls for now."""


class CircuitOpenError(ModelUnavailableError):
    """Every configured model failed too often and gets no calls for a while; none was called."""


class QueueFullError(ModelUnavailableError):
    """Too many calls wait for the model already, or this one waited too long."""


class ModelRefusedError(ModelError):
    """The provider rejected the request, the key or the model's name."""


class EmptyAnswerError(ModelError):
    """Every draft of the turn was empty, or only an empty one could be delivered."""


class SummarizationError(ModelError):
    """No usable summary was made; the messages stay in the context."""


class ModelReplyError(ModelError):
    """What a model, an agent or embeddings returned cannot be used, such as something without a message."""


class ToolStepsError(ModelError):
    """The model called tools for more than `max_tool_steps` rounds."""

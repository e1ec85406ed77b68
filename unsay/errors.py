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
│   ├── UnknownRunError
│   ├── UnknownToolResultError
│   ├── UnknownBranchError
│   ├── UnknownContextError          nothing tells what a model was sent
│   ├── NothingToUndoError
│   └── NothingToRedoError
├── ConflictError                 it exists, but not in the state that was assumed
│   ├── AmbiguousCheckpointError
│   ├── BudgetExceededError       the session, the task or the agent has spent what it may
│   │   └── BudgetDeclinedError   a person was asked for more and said no
│   ├── CheckpointExistsError
│   ├── EventConflictError        another event has this id
│   ├── RunConflictError          the run is not in a state that allows this
│   ├── SessionEndedError         the thread was ended for good
│   └── ThreadBusyError           another turn of the thread is under way
├── StorageError                  the operator must look at the file or the database
│   ├── DatabaseLockedError
│   ├── DatabaseCorruptError
│   ├── DatabaseTooNewError
│   ├── DatabaseTooOldError
│   └── EventLogGapError            an event is missing or was changed
└── ModelError                    the model, or the way to it, failed; the question is kept
    ├── ContextOverflowError      the prompt is longer than the model's window
    ├── ModelUnavailableError     rate limit, server error, timeout, broken connection
    │   ├── CircuitOpenError      it failed too often just now; it is not asked
    │   └── QueueFullError  too many calls stand before the model already
    ├── ModelRefusedError         the provider rejected the request or the key
    ├── EmptyAnswerError          every draft was empty
    ├── SummarizationError        a summary failed, or could not stand for what it would replace
    ├── ModelReplyError           the reply is not something a conversation can hold
    └── ToolStepsError            the model went on calling tools past the limit
"""


class UnsayError(Exception):
    """Anything that unsay refuses or cannot do."""


class ConfigurationError(UnsayError):
    """A setting is missing, impossible, or contradicts another."""


class MissingModelError(ConfigurationError):
    """There is no model to answer with."""


class MissingExtraError(ConfigurationError):
    """An optional package is needed for this and is not installed."""


class InputError(UnsayError):
    """The caller's input cannot be used; nothing was stored."""


class EmptyMessageError(InputError):
    """The message has no text and nothing else to answer."""


class MessageTooLongError(InputError):
    """The message is longer than `max_message_chars`."""


class InvalidNameError(InputError):
    """A checkpoint's or thread's name cannot be used as one."""


class SnapshotError(InputError):
    """No portable snapshot can be made of these fields, or this is none that can be read."""


class TranscriptError(InputError):
    """A provider would refuse these messages; the text names the index and the rule."""


class NotFoundError(UnsayError):
    """What was asked for does not exist; nothing was changed."""


class UnknownThreadError(NotFoundError):
    """No thread with this id lies in this database."""


class UnknownCheckpointError(NotFoundError):
    """No checkpoint of this thread has this name or id."""


class UnknownRunError(NotFoundError):
    """No run of this thread has this id."""


class UnknownToolResultError(NotFoundError):
    """No tool call of this thread has this id."""


class UnknownBranchError(NotFoundError):
    """Nothing that was said or cut, and no thread, has this name or id."""


class UnknownContextError(NotFoundError):
    """No manifest tells what the model was sent in this turn."""


class NothingToUndoError(NotFoundError):
    """The thread has no operation left that could be undone."""


class NothingToRedoError(NotFoundError):
    """Nothing was undone since the last turn or rollback."""


class ConflictError(UnsayError):
    """The request contradicts what is stored; nothing was changed."""


class AmbiguousCheckpointError(ConflictError):
    """More than one checkpoint answers to this beginning of an id."""


class BudgetExceededError(ConflictError):
    """A budget has no room for this call; the model was not asked and nothing was spent."""


class BudgetDeclinedError(BudgetExceededError):
    """A person did not want a call to go over a budget; the model was not asked."""


class CheckpointExistsError(ConflictError):
    """Another checkpoint of this thread already has this name."""


class EventConflictError(ConflictError):
    """An event with this id and another body is in the ledger already."""


class RunConflictError(ConflictError):
    """The run's status does not allow this, or it was suspended otherwise before."""


class SessionEndedError(ConflictError):
    """The thread was ended; it can be read, and no new run may start in it."""


class ThreadBusyError(ConflictError):
    """Another writer has the thread, or took it over from one that gave no sign of life."""


class StorageError(UnsayError):
    """The file or database cannot be read or written."""


class DatabaseLockedError(StorageError):
    """Another process held the database for longer than the timeout."""


class DatabaseCorruptError(StorageError):
    """The file is not an unsay database, or is damaged."""


class DatabaseTooNewError(StorageError):
    """A newer version of unsay wrote this database."""


class DatabaseTooOldError(StorageError):
    """An older version of unsay wrote this database, in a layout that is no longer read."""


class EventLogGapError(StorageError):
    """The ledger lacks an event that a later one builds on, or one was changed."""


class ModelError(UnsayError):
    """The model gave no usable answer; the question is kept."""


class ContextOverflowError(ModelError):
    """The prompt does not fit into the model's context window."""


class ModelUnavailableError(ModelError):
    """The model could not be reached, or asked to be left alone for now."""


class CircuitOpenError(ModelUnavailableError):
    """Every model that could answer failed too often just now; none was asked."""


class QueueFullError(ModelUnavailableError):
    """The waiting line in front of the models is full, or did not move in time."""


class ModelRefusedError(ModelError):
    """The provider rejected the request, the key or the model's name."""


class EmptyAnswerError(ModelError):
    """The model returned nothing, on every attempt."""


class SummarizationError(ModelError):
    """There is no summary that could be used; what it would have replaced stays in the view."""


class ModelReplyError(ModelError):
    """The model or agent returned something that is no message."""


class ToolStepsError(ModelError):
    """The model went on calling tools past `max_tool_steps`."""

"""Runtime: `Services`, what a compiled graph has, and `Scope`, what one step of it may use."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from secrets import token_hex
from typing import Any, TypeVar

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore

from unsay.context.strategy import Strategy
from unsay.context.view import Reminder
from unsay.effects import Call, Steps
from unsay.errors import ConfigurationError, MissingModelError
from unsay.events.event_types import NewEvent, planner_note
from unsay.history.branch import Change
from unsay.history.compensations import Compensation
from unsay.history.runs import run_named_after
from unsay.judging.verdict import JudgeForm, judge_forms
from unsay.messages.content import newest_language
from unsay.models.agents import with_own_state
from unsay.models.factory import (
    PROVIDERS,
    ModelLike,
    change_inner,
    inner_of,
    is_chat_model,
    is_graph,
    name_of,
    resolve_model,
)
from unsay.phrases import Option
from unsay.prompts.catalogue import Texts, by_language
from unsay.protocols import TopicDetector
from unsay.settings.settings import Context, Settings, context_of
from unsay.state import stored_salt
from unsay.storage.pagination import check_labels
from unsay.tokens.counter import Encoder, encoder_of, vocabulary_of
from unsay.tokens.pricing import Tally
from unsay.tracing import labeled, log_failure, with_handler
from unsay.types import Language, PendingCompensation, Provider, StoredBranch


@dataclass(slots=True)
class StepLog:
    """Changes that one step made, in order, for the event log, the compensations and the budget.

    Each `Scope` has a log. Operations add to it, and it is read when the step is committed.
    `new_events` come before the events of the step's own messages, `later_events` behind them.
    `returned` has the ids of messages that are in the event log already; `positions` says by id where
    those of loaded segments are there, and `restored` those of the messages that each change put back, by
    its branch. `changes` is what left the transcript or returned to it, `branches` the branches to
    store, by id, `offloaded` the ids of the messages of new segments, by page, `turn_places` where turns
    are that left the state (see `put_places`), `pending_compensations` the stored calls to undo, and
    `spent` the tokens of calls, by purpose. `calls` is for a thread without a store: a hash
    of each tool call of the draft, by the key of `Compensation`. `summaries_paused` says that a
    summary failed in this turn or a short time ago, `summary_failed` that one failed in this step.
    """

    new_events: list[NewEvent] = field(default_factory=list)
    later_events: list[NewEvent] = field(default_factory=list)
    returned: set[str] = field(default_factory=set)
    positions: dict[str, int] = field(default_factory=dict)
    restored: dict[str, dict[str, int]] = field(default_factory=dict)
    offloaded: dict[str, list[str]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    branches: dict[str, StoredBranch] = field(default_factory=dict)
    turn_places: dict[str, str] = field(default_factory=dict)
    pending_compensations: list[PendingCompensation] = field(default_factory=list)
    spent: dict[str, Tally] = field(default_factory=dict)
    calls: dict[str, str] = field(default_factory=dict)
    summaries_paused: bool = False
    summary_failed: bool = False

    def pause_summaries(self) -> None:
        """Record that a summary failed: the summarizer is not asked again for some turns."""
        self.summaries_paused = self.summary_failed = True


PARENT_RUN: ContextVar[str | None] = ContextVar("unsay_parent_run", default=None)
"""The run that is calling a model or a tool: the parent of our own agent's run inside."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Services:
    """Settings, models and tools of one compiled graph; `make_services` makes them.

    Models are made when first needed. That can be slow, so steps read them in a call of `off_loop`.
    A model that is `None` is taken from the settings. If none is configured there, a chat model that
    answers is also the judge and the summarizer, and titles are the first question's words. `clock` gives aware times in UTC. Without a `strategy` the settings
    name it; without `embeddings` recall compares words alone.
    """

    settings: Settings
    model_like: ModelLike | None
    judge_like: ModelLike | None
    summarizer_like: ModelLike | None
    title_like: ModelLike | None
    detector: TopicDetector
    clock: Callable[[], datetime]
    tools: Sequence[BaseTool] = ()
    tool_loop: Runnable[Any, Any] | None = None  # of model and tools; `None` without tools

    reminders: Sequence[Reminder] = ()
    prompts: Mapping[Language, Texts] = field(default_factory=by_language)
    strategy: Strategy | None = None
    embeddings: Embeddings | None = None
    learned: set[str] = field(default_factory=set, compare=False)
    """Limits of models that calls found, for example that the judge refuses structured output."""
    shared: dict[Callable[[Settings], Any], Any] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Values made by `sole`, by the function that made them."""

    @cached_property
    def model(self) -> Runnable[Any, Any]:
        """The model, agent or graph that answers.

        Raises `MissingModelError` without one, or if its client cannot be made, as without a key;
        `ConfigurationError` if the provider's package is missing.
        """
        model_like = self.model_like or self.settings.model
        if model_like is None:
            raise MissingModelError(code="no_model", option=Option("model"))
        return with_own_state(resolve_model(model_like, self.settings))

    def resolved(self, chosen: ModelLike | None) -> Runnable[Any, Any] | None:
        """Return a given or named model, ready to be asked; `None` for `None`. Raises as `resolve_model`."""
        return None if chosen is None else with_own_state(resolve_model(chosen, self.settings))

    @cached_property
    def answerer(self) -> Runnable[Any, Any]:
        """`model` with the graph's tools bound.

        Raises `MissingModelError` without a usable model, `ConfigurationError` if there are tools and
        it is no chat model.
        """
        return self.with_tools(self.model)

    def with_tools(self, model: Runnable[Any, Any]) -> Runnable[Any, Any]:
        """Return a copy of a model with the graph's tools bound; without tools the model itself.

        Raises `ConfigurationError` if there are tools and the model is no chat model.
        """
        if not self.tools:
            return model
        if not is_chat_model(model):
            raise ConfigurationError(
                "tools=… needs a chat model with bind_tools; give an agent its tools itself"
            )
        return change_inner(model, lambda chat: chat.bind_tools(list(self.tools)))

    @cached_property
    def provider(self) -> Provider | None:
        """The answering model's provider, for the rules of messages; `None` if unknown. Raises as `model`."""
        kind = getattr(inner_of(self.model), "_llm_type", "")
        return next((name for part, name in PROVIDERS.items() if part in kind), None)

    @cached_property
    def model_name(self) -> str | None:
        """The name under which its provider knows the answering model; `None` if unknown. Raises as `model`."""
        return name_of(self.model)

    @cached_property
    def encoder(self) -> Encoder | None:
        """The answering model's tokenizer; `None` without `tiktoken` or its file. Raises as `model`."""
        return encoder_of(vocabulary_of(self.model_name))

    def sole(self, make: Callable[[Settings], T]) -> T:
        """Return `make(settings)`, such as the queue that all calls of this graph share.

        It is made once for each `make`; later calls with the same function return the same object.
        """
        value: T = self.shared.get(make) or self.shared.setdefault(make, make(self.settings))
        return value

    @property
    def is_graph(self) -> bool:
        """Whether the model is a graph, which takes a state instead of a list of messages. Raises as `model`."""
        return is_graph(self.model)

    @cached_property
    def judge(self) -> Runnable[Any, Any] | None:
        """The model that judges: the configured one, else the chat model that answers.

        `None` if none is configured and an agent answers: then only the local checks judge. The errors
        are those of `resolve_model` and `model`.
        """
        own = self.resolved(self.judge_like or self.settings.judge_model)
        return own or (self.model if is_chat_model(self.model) else None)

    @cached_property
    def judge_forms(self) -> tuple[JudgeForm, ...]:
        """The ways to ask the judge, best first, the last with `judge` as it is; empty if that is `None`.

        Raises as `judge`.
        """
        if self.judge is None:
            return ()
        return self._forms(self.judge, is_given=self.judge is self.judge_like)

    @cached_property
    def judge_panel(self) -> tuple[tuple[JudgeForm, ...], ...]:
        """The ways to ask the graph's judge, if it has one, then those that settings name. Raises as `judge`."""
        judges = (resolve_model(name, self.settings) for name in self.settings.judge_panel)
        others = [self._forms(judge, is_given=False) for judge in judges]
        return (*([self.judge_forms] if self.judge_forms else []), *others)

    def _forms(self, judge: Runnable[Any, Any], *, is_given: bool) -> tuple[JudgeForm, ...]:
        labels = self.settings.topics == "model"
        return judge_forms(judge, is_given=is_given, labels_topics=labels)

    @cached_property
    def own_summarizer(self) -> Runnable[Any, Any] | None:
        """The model that was configured for summaries; `None` if none was. Raises as `resolve_model`."""
        return self.resolved(self.summarizer_like or self.settings.summarizer_model)

    @property
    def summarizer(self) -> Runnable[Any, Any] | None:
        """The model that summarizes: `own_summarizer`, else the chat model that answers.

        `None` if neither exists; a missing answering model raises no error here.
        """
        with suppress(MissingModelError):  # a reader of a thread needs no model
            chat = self.model if is_chat_model(self.model) else None
            return self.own_summarizer or chat
        return self.own_summarizer

    @cached_property
    def titler(self) -> Runnable[Any, Any] | None:
        """The model for titles; `None` if those are the first question's words. Raises as `resolve_model`."""
        return self.resolved(self.title_like or self.settings.title_model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What one step, a node or an operation outside of a run, may use: services, thread and run.

    `Scope.of` makes it for a node, `ThreadHandle.scope` for a verb of `Conversation`; nodes and
    operations get it as an argument. `settings` are those of the run, and `labels` the host's,
    which are stored with its events. `run_id` is `None` outside of a run, and `named` says that the
    host chose it. A node (`in_graph`) may interrupt the run and ask a person; a reader does not
    hold the thread's lock and writes nothing. `task_id` is the current topic, whose budget pays for
    calls.
    """

    services: Services
    settings: Settings
    config: RunnableConfig
    store: BaseStore | None
    """`None` also in a run without a thread id or a checkpointer: nobody could find that thread to purge it."""

    thread_id: str | None
    stream_writer: Callable[[dict[str, Any]], None]
    run_id: str | None = None
    named: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    parent_run_id: str | None = None
    step_log: StepLog = field(default_factory=StepLog)
    in_graph: bool = False
    is_reader: bool = False
    task_id: str = "task"
    salt: str = field(default_factory=token_hex)  # secret in the keys of fences
    confirm: Callable[[Compensation], bool] | None = None
    """Confirms calls to undo outside of a run; `None` refuses them."""

    keeps: Sequence[str] = ()
    """Ids of unanswered messages that an order leaves in the transcript."""

    read_thread: Callable[[str], Steps[list[AnyMessage]]] | None = None
    """Reads the transcript of another thread of the database; `None` in a graph."""

    @classmethod
    def of(cls, services: Services, config: RunnableConfig) -> "Scope":
        """Return the scope of the node that is running; only a node can call this.

        The settings include those of the run's context. Raises `ConfigurationError` if one of those
        is invalid, `InputError` if a label in the context is.
        """
        runtime = get_runtime(Context)
        context = context_of(runtime.context)
        place = config.get("configurable", {})
        thread_id, saver = place.get("thread_id"), place.get(CONFIG_KEY_CHECKPOINTER)
        info, run_id = runtime.execution_info, None
        if info is not None:  # without an id of the host, one that a repeated step gets again
            run_id = str(info.run_id or run_named_after(info.thread_id, info.checkpoint_id))
        return cls(
            services=services,
            settings=services.settings.for_run(context),
            config=config,
            store=runtime.store if thread_id and saver else None,
            thread_id=None if thread_id is None else str(thread_id),
            stream_writer=runtime.stream_writer,
            salt=stored_salt(config) or token_hex(),
            run_id=run_id,
            named=bool(info and info.run_id),
            labels=check_labels(context.get("labels")),
            parent_run_id=context.get("parent_run_id") or PARENT_RUN.get(),
            in_graph=True,
        )

    @property
    def address(self) -> tuple[BaseStore, str] | None:
        """The store and the thread's id; `None` if one is missing, and then nothing can be stored."""
        if self.store is None or self.thread_id is None:
            return None
        return self.store, self.thread_id

    def now(self) -> str:
        """The time in ISO 8601, UTC, to the millisecond."""
        return self.services.clock().isoformat(timespec="milliseconds")

    def texts(self, messages: list[Any]) -> Texts:
        """Return the texts for models and people in the language of `messages`; see `language`."""
        return self.services.prompts[self.language(messages)].salted(self.salt)

    def language(self, messages: list[Any]) -> Language:
        """Return the language of notices and prompts.

        It is that of the settings, or with `auto` that of the newest of `messages`.
        """
        setting = self.settings.language
        return newest_language(messages) if setting == "auto" else setting

    def emit(self, event: str, **data: Any) -> None:
        """Write an event to LangGraph's custom stream; outside of the graph it is dropped."""
        self.stream_writer({"unsay": event, **data})

    def report_failure(self, event: str, error: Exception) -> None:
        """Log and stream the failure of a part that the user gave, such as a judge; see `warn`."""
        self.warn(event, error=log_failure(event, self.thread_id, error))

    def warn(self, event: str, **text: str) -> None:
        """Stream an event with one text, such as an error; a run keeps it as a note in the event log."""
        self.emit(event, **text)
        self.step_log.later_events.append(planner_note(f"{event}: {' '.join(text.values())}"))

    def ask(
        self,
        runnable: Runnable[Any, Any],
        value: Any,
        *,
        quiet: bool,
        aside: str | None = None,
        timeout_seconds: float | None = None,
        configurable: dict[str, Any] | None = None,
        handler: BaseCallbackHandler | None = None,
    ) -> Call[object]:
        """Return a call of a model, judge, agent or graph with `value`, for a step to make.

        `quiet` and `aside` are those of `labeled`, `configurable` is added to the configuration,
        and `handler` receives the callbacks of everything inside. After `timeout_seconds` the step
        gets a `TimeoutError`; `None` sets no limit. An error of `runnable` is raised in the step. No
        budget is checked: `ask_model` does that.
        """
        # Merged by hand: `merge_configs` would fill the gaps from the step that is running,
        # and the tokens of a tool loop would be announced under its name.
        config = labeled(self.config, quiet=quiet, aside=aside)
        if configurable:
            config["configurable"] = {**config.get("configurable", {}), **configurable}
        if handler is not None:
            config["callbacks"] = with_handler(config.get("callbacks"), handler)

        def blocking() -> Any:
            with self._calling(config):
                return runnable.invoke(value, config)

        async def awaitable() -> Any:
            with self._calling(config):
                return await runnable.ainvoke(value, config)

        return Call(blocking=blocking, awaitable=awaitable, timeout_seconds=timeout_seconds)

    @contextmanager
    def _calling(self, config: RunnableConfig) -> Iterator[None]:
        """Make this run the parent of all runs that start within a `with` block."""
        run = PARENT_RUN.set(self.run_id or PARENT_RUN.get())
        # LangGraph adds the callbacks of the configuration that is kept here to those of the call.
        ambient = var_child_runnable_config.set(config)
        try:
            yield
        finally:
            var_child_runnable_config.reset(ambient)
            PARENT_RUN.reset(run)

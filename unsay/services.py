"""The live objects that nodes are given, and the models behind names."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from importlib import import_module
from os import environ
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool
from langgraph.pregel import Pregel
from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore

from unsay.effects import Call
from unsay.errors import ConfigurationError, MissingModelError
from unsay.history.cuts import cuts_namespace, pack, unpack
from unsay.judging.verdicts import REPLY_SCHEMA
from unsay.prompts.catalogue import texts
from unsay.prompts.texts import Texts
from unsay.settings import Context, Settings, context_of
from unsay.transcript.text import newest_language
from unsay.types import Cut, TopicDetector

ModelLike = BaseChatModel | Runnable[Any, Any] | Callable[[Any], Any] | str
"""A chat model, an agent that takes and gives messages, a function, or a model's name."""

Part = Literal["answerer", "judge", "structured_judge", "summarizer", "titler"]
"""The models of a graph, by what they do."""

QUIET = "nostream"
"""Tag of calls whose tokens must not reach the user. Source: langgraph TAG_NOSTREAM."""


def resolve_model(model: ModelLike, settings: Settings) -> Runnable[Any, Any]:
    """Something that can be invoked, from anything that a caller may give.

    Raises:
        MissingModelError: A name was given, but no key or address for it.
        ConfigurationError: It is none of the accepted kinds.
    """
    if isinstance(model, str):
        return _named_model(model, settings)
    if isinstance(model, Runnable):
        return model
    if callable(model):
        return RunnableLambda(model)
    raise ConfigurationError(
        f"{model!r} cannot answer: give a LangChain chat model, a model's name, "
        "or a Runnable that takes and gives messages"
    )


def _named_model(name: str, settings: Settings) -> Runnable[Any, Any]:
    key, base = environ.get("OPENAI_API_KEY"), environ.get("OPENAI_BASE_URL")
    if not key and not base:
        raise MissingModelError(
            f"There is no key for model {name!r}: set OPENAI_API_KEY, or OPENAI_BASE_URL for a "
            "server of your own (Ollama, vLLM, llama.cpp); `unsay demo` needs neither"
        )
    chat_openai = import_module("langchain_openai").ChatOpenAI
    made: Runnable[Any, Any] = chat_openai(
        model=name,
        timeout=settings.model_timeout_seconds,
        stream_usage=True,
        **({} if key else {"api_key": "not-needed"}),
        **_loop_safe_client(),
    )
    return made


def _loop_safe_client() -> dict[str, Any]:
    """An HTTP client that keeps no connection of one event loop for the next.

    LangChain shares one among all loops of the process, and a connection that was kept by a
    loop that has ended fails in the next one. A proxy set for LangChain needs its own client.
    """
    if environ.get("OPENAI_PROXY"):
        return {}
    limits = import_module("httpx").Limits(max_keepalive_connections=0)
    return {"http_async_client": import_module("openai").DefaultAsyncHttpxClient(limits=limits)}


@dataclass(frozen=True, kw_only=True)
class Services:
    """What one compiled graph works with; models are made when first needed."""

    settings: Settings
    """From all sources; a run may override some of them."""

    model_like: ModelLike | None
    """As the caller gave it; `None` takes `settings.model`."""

    judge_like: ModelLike | None
    """`None` takes `settings.judge_model`, else the answering model if it is a chat model."""

    summarizer_like: ModelLike | None
    """`None` takes `settings.summarizer_model`, else the local summary."""

    title_like: ModelLike | None
    """`None` takes `settings.title_model`, else the first question's words."""

    detector: TopicDetector
    """Follows the topics."""

    clock: Callable[[], datetime]
    """Aware, in UTC."""

    tools: Sequence[BaseTool] = ()
    """What the model may call while it answers."""

    tool_loop: Runnable[Any, Any] | None = None
    """The graph in which model and tools take turns; `None` without tools."""

    learned: set[str] = field(default_factory=set, compare=False)
    """What calls taught about the models, for example that the judge refuses structure."""

    @cached_property
    def model(self) -> Runnable[Any, Any]:
        """What answers.

        Raises:
            MissingModelError: None was given and none is configured.
        """
        chosen = self.model_like or self.settings.model
        if chosen is None:
            raise MissingModelError(
                "There is no model to answer with: set UNSAY_MODEL to a model's name and "
                "OPENAI_API_KEY (or OPENAI_BASE_URL for a server of your own), or name a model "
                "(model=… in Python, --model on the command line); "
                "`unsay demo` needs neither"
            )
        return resolve_model(chosen, self.settings)

    @cached_property
    def answerer(self) -> Runnable[Any, Any]:
        """The model, with the tools' descriptions bound where there are tools."""
        if not self.tools:
            return self.model
        if not isinstance(self.model, BaseChatModel):
            raise ConfigurationError(
                "tools=… needs a chat model with bind_tools; give an agent its tools itself"
            )
        return self.model.bind_tools(list(self.tools))

    @property
    def is_graph(self) -> bool:
        """Whether the model is a graph of its own, which takes a state and not a list."""
        return isinstance(self.model, Pregel)

    @cached_property
    def judge(self) -> Runnable[Any, Any] | None:
        """What judges; `None` when only the pre-judge can."""
        chosen = self.judge_like or self.settings.judge_model
        if chosen is not None:
            return resolve_model(chosen, self.settings)
        return self.model if isinstance(self.model, BaseChatModel) else None

    @cached_property
    def structured_judge(self) -> Runnable[Any, Any] | None:
        """The judge asked for a structure; `None` where it cannot give one."""
        if not isinstance(self.judge, BaseChatModel) or self.settings.judge_format == "text":
            return None
        try:
            return self.judge.with_structured_output(REPLY_SCHEMA, include_raw=True)
        except NotImplementedError:
            return None

    @cached_property
    def summarizer(self) -> Runnable[Any, Any] | None:
        """What summarizes a topic that was left; `None` for the local summary."""
        chosen = self.summarizer_like or self.settings.summarizer_model
        return None if chosen is None else resolve_model(chosen, self.settings)

    @cached_property
    def titler(self) -> Runnable[Any, Any] | None:
        """What names threads; `None` for the first question's words."""
        chosen = self.title_like or self.settings.title_model
        return None if chosen is None else resolve_model(chosen, self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a node may use during one run."""

    services: Services
    settings: Settings
    config: RunnableConfig
    store: BaseStore | None
    thread_id: str | None
    emit: Callable[[dict[str, Any]], None]

    @classmethod
    def of(cls, services: Services, config: RunnableConfig) -> "Scope":
        """The scope of the run that is under way.

        Raises:
            ConfigurationError: The run's context overrides a setting impossibly.
        """
        runtime = get_runtime(Context)
        thread_id = config.get("configurable", {}).get("thread_id")
        return cls(
            services=services,
            settings=services.settings.for_run(context_of(runtime.context)),
            config=config,
            store=runtime.store if thread_id else None,
            thread_id=None if thread_id is None else str(thread_id),
            emit=runtime.stream_writer,
        )

    def now(self) -> str:
        """The time in ISO 8601, UTC, to the millisecond."""
        return self.services.clock().isoformat(timespec="milliseconds")

    def texts(self, messages: list[Any]) -> Texts:
        """The catalogue in the conversation's language."""
        chosen = self.settings.language
        return texts(newest_language(messages) if chosen == "auto" else chosen)

    def tell(self, event: str, **data: Any) -> None:
        """Announce something on the custom stream, for whoever listens."""
        self.emit({"unsay": event, **data})

    def resolve(self, part: Part) -> Call:
        """A call that makes a model on first use, off the event loop: that reads files."""
        return Call(
            blocking=lambda: getattr(self.services, part),
            awaitable=lambda: asyncio.to_thread(getattr, self.services, part),
        )

    def ask(
        self,
        runnable: Runnable[Any, Any],
        value: Any,
        *,
        quiet: bool,
        timeout_seconds: float | None = None,
        configurable: dict[str, Any] | None = None,
    ) -> Call:
        """A call of a model, judge, agent or graph."""
        # Merged by hand: `merge_configs` would fill the gaps from the step that is running,
        # and the tokens of a tool loop would be announced under its name.
        config: RunnableConfig = {**self.config}
        if quiet:
            config["tags"] = [*(config.get("tags") or []), QUIET]
        if configurable:
            config["configurable"] = {**config.get("configurable", {}), **configurable}
        return Call(
            blocking=lambda: runnable.invoke(value, config),
            awaitable=lambda: runnable.ainvoke(value, config),
            timeout_seconds=timeout_seconds,
        )

    def keep_cut(self, cut: Cut) -> Call | None:
        """A call that puts a cut into the store; `None` where there is no store."""
        if self.store is None or self.thread_id is None:
            return None
        store, place = self.store, cuts_namespace(self.thread_id)
        return Call(
            blocking=lambda: store.put(place, cut["id"], pack(cut), index=False),
            awaitable=lambda: store.aput(place, cut["id"], pack(cut), index=False),
        )

    def fetch_cut(self, cut_id: str) -> Call | None:
        """A call that gets a cut from the store; `None` where there is no store."""
        if self.store is None or self.thread_id is None:
            return None
        store, place = self.store, cuts_namespace(self.thread_id)
        return Call(
            blocking=lambda: _cut_in(store.get(place, cut_id)),
            awaitable=lambda: _aget_cut(store, place, cut_id),
        )


async def _aget_cut(store: BaseStore, place: tuple[str, ...], cut_id: str) -> Cut | None:
    return _cut_in(await store.aget(place, cut_id))


def _cut_in(item: Any) -> Cut | None:
    return None if item is None else unpack(item.value)

"""Tokens of an agent that answers: on the stream of the graph around it, and for its budget.

LangGraph shows the tokens of a graph inside a node only with `subgraphs=True`. Here they are
announced as those of the node `process_message`, like the tokens of a chat model.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langgraph.pregel._messages import StreamMessagesHandler

_WHERE = "langgraph_"  # beginning of the metadata that say which node of which graph is running
_TOOLS = "tools:"  # beginning of a part of a namespace: an agent inside of a tool


class AgentTokens(BaseCallbackHandler):
    """Announces model calls inside of an agent to the streams that leave out subgraphs."""

    run_inline = True  # LangChain would otherwise call it in another Python thread

    def __init__(self, config: RunnableConfig) -> None:
        """Take the configuration of the node that calls the agent."""
        callbacks = config.get("callbacks")
        handlers = callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else []
        self._streams = [
            each
            for each in handlers
            if isinstance(each, StreamMessagesHandler) and not each.subgraphs
        ]
        self._node = {
            name: value
            for name, value in config.get("metadata", {}).items()
            if name.startswith(_WHERE)
        }

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Register a call, so that the host's stream shows its tokens as those of the node.

        Calls of an agent inside a tool are skipped: they do not give the answer.
        """
        namespace = str((metadata or {}).get("langgraph_checkpoint_ns", ""))
        own = str(self._node.get("langgraph_checkpoint_ns", ""))
        inside = namespace.removeprefix(own).split("|")[:-1]
        if any(part.startswith(_TOOLS) for part in inside):
            return
        for stream in self._streams:
            where = {**(metadata or {}), **self._node}
            stream.on_chat_model_start(
                serialized, messages, run_id=run_id, tags=tags, metadata=where
            )


class AgentReplies(BaseCallbackHandler):
    """Keeps the replies of all models inside of an agent, which are lost if the agent fails."""

    run_inline = True  # LangChain would otherwise call it in another Python thread

    def __init__(self) -> None:
        self.replies: list[AIMessage] = []

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """Keep the reply of one call."""
        found = (each for several in response.generations for each in several)
        messages = (each.message for each in found if isinstance(each, ChatGeneration))
        self.replies += [each for each in messages if isinstance(each, AIMessage)]

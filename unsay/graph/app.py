"""The graph that LangGraph's servers load: no checkpointer, no store, they bring their own.

The model comes from the environment when the first question does: `UNSAY_MODEL`
with `OPENAI_API_KEY`, or with `OPENAI_BASE_URL`.
"""

from unsay.graph.builder import build_graph

graph = build_graph()

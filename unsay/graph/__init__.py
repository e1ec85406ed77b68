"""The five nodes as a LangGraph graph, for code and for servers."""

from unsay.graph.builder import build_graph

__all__ = ["build_graph"]

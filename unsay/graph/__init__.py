"""The five nodes as a LangGraph graph, for code and for servers."""

from unsay.graph.builder import build_graph
from unsay.hosts.entry import as_node

__all__ = ["as_node", "build_graph"]

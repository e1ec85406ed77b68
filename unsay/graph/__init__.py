"""The five nodes as a LangGraph graph, for code and for servers."""

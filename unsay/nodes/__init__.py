"""The five nodes of the graph."""

"""The graph, its routing, and the conversation over it."""

"""The live branch of a thread: its undo steps, what is forgotten or pinned, what waits, and its record."""

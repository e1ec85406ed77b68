"""Ranges of positions, by which branches and offloaded segments refer to messages of the event log."""

"""The history of a thread: branches, checkpoints, runs and usage."""

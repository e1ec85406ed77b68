"""What is remembered of a thread: branches, checkpoints, runs, usage."""

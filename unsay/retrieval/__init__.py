"""Ranking earlier messages against a question."""

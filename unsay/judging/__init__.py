"""Verdicts on answers, with and without a model, and the topics of a thread."""

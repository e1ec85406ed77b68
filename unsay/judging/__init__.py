"""Verdicts with and without a model, and topic detection."""

"""Counting tokens and pricing usage."""

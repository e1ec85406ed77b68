"""Drafting and judging one answer."""

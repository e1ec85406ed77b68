"""How one answer is drafted and judged."""

"""The one door to a model: reserve, queue, break, fall back, settle."""

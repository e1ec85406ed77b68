"""Calls of models: budget, queue, circuit breaker, fallback model, accounting."""

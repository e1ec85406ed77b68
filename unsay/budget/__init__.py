"""Limits, usage accounts and the circuit breaker, as pure values."""

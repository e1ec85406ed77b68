"""What a call may cost: token counting, budgets, backpressure, circuits."""

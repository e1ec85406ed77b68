"""What answers: models by name, and agents."""

"""What a person can order: the commands, and how a typed line is read."""

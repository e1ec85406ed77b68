"""The command line and the chat."""

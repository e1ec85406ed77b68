"""What verbs return, and how it is printed and drawn."""

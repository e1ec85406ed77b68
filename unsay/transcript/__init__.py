"""Messages as text, and where a record may be cut."""

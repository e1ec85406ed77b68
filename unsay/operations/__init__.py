"""Every verb once: rollback, undo, retry, pin, forget, recall."""

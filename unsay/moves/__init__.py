"""Changes of the transcript and of what its tools did: rollback, restore, compensate, reconcile."""

"""Where the bodies of a thread's messages lie in its event log: positions, and ranges of them."""

"""A turn from the question to the delivered answer."""

"""A thread as one log of changes: the pure model and the plain lists that it is compared with.

Nothing of unsay uses the model yet. It moves into the package with its first user.
"""

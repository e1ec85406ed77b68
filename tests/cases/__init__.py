"""Acceptance cases as data: each operation is bound to the library once.

`python -m tests.cases PATH…` runs any files of the shape that `CaseFile` reads.
"""

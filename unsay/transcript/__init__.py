"""Transcripts: what providers accept, repair, where a record may be cut, and what happened in it."""

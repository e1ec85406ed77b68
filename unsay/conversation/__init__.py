"""The public facade: verbs, results, timeline, tree and pictures."""

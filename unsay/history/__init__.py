"""What outlives a run: checkpoints, cuts, the catalogue, the database."""

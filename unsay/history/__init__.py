"""What outlives a run: checkpoints, cuts, the ledger, runs, the catalogue, the database."""

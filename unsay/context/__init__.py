"""Views: what a model is sent for one call, computed from the record."""

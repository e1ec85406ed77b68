"""Every text for a model or a person, English and Japanese."""

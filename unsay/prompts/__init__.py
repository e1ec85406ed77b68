"""What models are told, in English and Japanese side by side."""

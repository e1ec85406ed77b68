"""What a model is shown of earlier turns: topics, recall, offloaded messages, lessons."""

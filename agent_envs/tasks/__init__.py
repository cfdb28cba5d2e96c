"""The tasks; ``catalogue`` lists them by name."""

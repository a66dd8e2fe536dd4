"""Plans as documents: the JSON that other tools read, and its schema."""

"""The four ways of changing an object in part: JSON, merge and strategic merge patches, and apply."""

"""Manifests as people write them: text in, objects with line numbers out."""

"""Recordings of clusters: what is taken of them, how it is stored, and the recorder itself."""

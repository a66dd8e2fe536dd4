"""The parts of ``tools/release.py``: what a release is made of, and how each part is checked."""

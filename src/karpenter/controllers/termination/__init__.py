"""Nodes and claims that go: emptied first, then without volumes, then without a machine."""

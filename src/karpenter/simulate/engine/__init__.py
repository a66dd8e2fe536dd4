"""The parts of a run: its cloud, its controllers, what takes time, and the way to the API."""

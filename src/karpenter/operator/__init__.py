"""The controller process: start, leadership, HTTP endpoints, memory limit and profiling."""

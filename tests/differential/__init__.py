"""One list of operations, run against the sandbox and against a real control plane."""

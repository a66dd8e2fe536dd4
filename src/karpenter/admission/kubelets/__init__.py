"""The kubelet's configuration file, and the fields that a node class may set in it."""

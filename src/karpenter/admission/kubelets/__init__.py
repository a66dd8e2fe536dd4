"""The kubelet's configuration file, and what a node class may say in it."""

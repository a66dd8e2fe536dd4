"""The vocabulary of scheduling: resources, labels, requirements, taints."""

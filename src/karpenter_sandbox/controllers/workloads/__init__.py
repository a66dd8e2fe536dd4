"""Controllers that keep pods running: Deployments, ReplicaSets, StatefulSets, DaemonSets, autoscalers."""

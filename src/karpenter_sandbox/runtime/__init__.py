"""The runtime of the cluster's own controllers: informers, work queues and events."""

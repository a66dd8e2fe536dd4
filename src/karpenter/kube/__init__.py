"""The Kubernetes client: requests, informers, leader election, work queues, events."""

"""Where instances stand: subnets, security groups, placement groups, zones, and the cluster they join."""

"""The network of instances: subnets, security groups, placement groups, zones, and the cluster."""

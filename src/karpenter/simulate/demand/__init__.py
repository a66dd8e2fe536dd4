"""What users of the cluster ask for, and when: a pure function of scenario and seed."""

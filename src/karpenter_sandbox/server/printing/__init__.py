"""What ``kubectl get`` shows of each kind: columns and cells."""

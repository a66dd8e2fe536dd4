"""The reconcile loops: they carry out plans through ``Kube``, a cloud provider and a clock."""

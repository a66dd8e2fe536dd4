"""The reconcile loops: they carry plans into the world, through ``Kube``, a cloud and a clock."""

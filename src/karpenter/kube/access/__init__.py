"""Access to a cluster: kubeconfig files, credentials, TLS and proxies."""

"""CEL: expressions compiled and run, the functions Kubernetes adds, and rules of CRDs."""

"""Why a pool or machine does not take a pod, and what became of its preferences."""

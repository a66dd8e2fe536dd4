"""``karpenter explain``: the command and its views."""

"""``karpenter plan``: the command and its views."""

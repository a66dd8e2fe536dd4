"""Images of node classes: AMI families, aliases, discovery."""

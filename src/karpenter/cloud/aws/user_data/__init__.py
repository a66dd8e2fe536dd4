"""What an instance runs when it boots, for each family of machine images."""

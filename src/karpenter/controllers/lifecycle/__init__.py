"""What becomes of a NodeClaim from its creation until it is deleted."""

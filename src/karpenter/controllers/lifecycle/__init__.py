"""The lifecycle of a NodeClaim, from its creation until it is deleted."""

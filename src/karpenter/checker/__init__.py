"""An independent checker of plans: slow, obvious, and sharing no decision with the solver."""

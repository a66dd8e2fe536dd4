"""Which machines should be removed, why, and why the others stay; pure."""

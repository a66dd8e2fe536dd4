"""Which machines should go, why, and why the others stay; pure."""

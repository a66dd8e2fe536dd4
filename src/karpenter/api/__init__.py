"""Wire models of every kind the project reads or writes; no behaviour."""

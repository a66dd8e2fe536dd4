"""Instance types: what EC2 sells, how large nodes of a class are, and in which offerings."""

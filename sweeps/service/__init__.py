"""A sweep from its start to its end, and what is done with it afterwards."""

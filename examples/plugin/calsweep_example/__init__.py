"""One component of each kind that an installed package can add to calsweep."""

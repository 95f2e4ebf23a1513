"""Everything that uses Ray on the driver."""

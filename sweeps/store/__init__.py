"""The sweep store: the sweep's folder, its lock or lease, encoders, the driver's log."""

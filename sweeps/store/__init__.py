"""What must never be lost: the sweep's folder, its lock or lease, encoders, the driver's log."""

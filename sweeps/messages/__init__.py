"""What every message consists of: formatted values, no credentials."""

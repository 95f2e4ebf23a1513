"""What a sweep hands out: exported, registered and applied classifiers."""

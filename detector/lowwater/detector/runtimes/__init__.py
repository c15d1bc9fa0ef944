"""What owns time, keys and storage while the pipeline decides: the embedded runtime of ``lowwater serve``."""

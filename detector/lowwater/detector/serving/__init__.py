"""``lowwater serve``: receivers, core, sinks and the admin endpoint, put together, started, and stopped without loss."""

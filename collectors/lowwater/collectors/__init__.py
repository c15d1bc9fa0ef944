"""The agent side of lowwater: reads what traces say about context tokens. OpenTelemetry only."""

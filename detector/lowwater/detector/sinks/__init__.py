"""Where findings go from the live detector: files, OTLP log records, webhooks. Each has a thread and a memory of its own."""

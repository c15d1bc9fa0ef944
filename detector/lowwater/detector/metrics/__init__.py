"""What the detector counts, and how that is shown: to Prometheus at a scrape, or exported as OTLP metrics."""

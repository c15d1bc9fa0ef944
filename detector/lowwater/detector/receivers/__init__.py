"""Where OTLP comes in: gRPC and HTTP over one intake, to the letter of the OTLP specification."""

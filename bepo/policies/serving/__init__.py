"""Language models behind an HTTP endpoint, and the vLLM server that bepo starts."""

"""verl, vLLM, Ray and FSDP: the engine of ``backend=verl``. ``bepo.training.backends.verl`` has the settings."""

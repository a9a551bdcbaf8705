"""Language models in this process: sampling, log-probabilities, and how batches are laid out. They need torch."""

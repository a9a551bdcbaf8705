"""Language models in this process (torch): sampling, log-probabilities, and the layout of batches."""

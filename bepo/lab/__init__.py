"""The credit lab: small worlds whose values are known exactly, to measure estimators against the true advantage."""

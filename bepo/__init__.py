"""bepo: an experiment harness for credit assignment in LLM agents."""

__version__ = "0.1.0"

"""LLM-agent tasks as Gymnasium environments."""

"""The demo's small policy: how it was warm-started, and the folder with its weights and tokenizer."""

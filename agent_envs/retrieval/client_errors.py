"""How a retrieval server can fail its client. Each ends the episode that searched, as truncated, and no other."""

from __future__ import annotations

from agent_envs.errors import RetrievalError


class RetrievalUnavailableError(RetrievalError):
    """The server cannot be reached, breaks connections off, or says that it is too busy or not ready."""


class RetrievalTimeoutError(RetrievalError):
    """The server did not answer before the search's deadline."""


class RetrievalAnswerError(RetrievalError):
    """The server answered, but with an error or with something that is no result of this search."""

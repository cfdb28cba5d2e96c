"""The tree of errors. A message says what was expected, what came, where, and what to do.

The policy's mistakes are not here: they are data (``types.Event``). These are a programmer's mistakes, broken input,
and infrastructure that failed.
"""

from __future__ import annotations


class AgentEnvError(Exception):
    """The root of every error that this package raises on purpose."""


class ConfigError(AgentEnvError, ValueError):
    """An option that is unknown, out of range, or contradicts another."""


class UnknownNameError(ConfigError):
    """A name that no registry knows; the message lists the known ones."""


class DataError(AgentEnvError, ValueError):
    """A data file that is missing, malformed or empty; the message names the file and the row."""


class TokenizerError(AgentEnvError, ValueError):
    """A tokenizer that cannot be loaded or lacks what the project needs."""


class ChatTemplateError(TokenizerError):
    """A chat template that is missing, fails, or cannot be driven turn by turn."""


class MissingExtraError(AgentEnvError, ImportError):
    """An optional dependency that is not installed; the message names the extra."""


class EpisodeOverError(AgentEnvError, RuntimeError):
    """A step before the first reset or after the end of an episode."""


class InvalidActionError(AgentEnvError, ValueError):
    """An action outside the action space."""


class ToolUseError(AgentEnvError):
    """Raised by a tool about its caller's mistake: the policy reads the message and can mend it."""


class ToolFailureError(AgentEnvError):
    """A tool whose infrastructure failed or ran past its deadline: the episode is truncated."""


class RetrievalError(ToolFailureError):
    """A retrieval server that cannot be reached, is too slow, or answers wrongly."""

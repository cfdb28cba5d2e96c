"""What an episode may use."""

from __future__ import annotations

from dataclasses import dataclass

from agent_envs.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Budgets:
    """What an episode may use.

    Attributes:
        max_turns: turns of the policy, >= 1.
        max_turn_tokens: tokens of one turn of the policy, >= 1.
        max_observation_tokens: tokens of the contents that the environment writes after one turn.
        max_context: tokens of the whole context, prompt included.
    """

    max_turns: int = 6
    max_turn_tokens: int = 512
    max_observation_tokens: int = 1024
    max_context: int = 8192

    def __post_init__(self) -> None:
        """Checks the ranges.

        Raises:
            ConfigError: a budget is out of range, or two contradict each other.
        """
        for name in ("max_turns", "max_turn_tokens", "max_observation_tokens", "max_context"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name} is a whole number >= 1, not {value!r}")
        if self.max_turn_tokens >= self.max_context:
            raise ConfigError(
                f"max_turn_tokens ({self.max_turn_tokens}) leaves no room for a prompt in max_context "
                f"({self.max_context}); lower the first or raise the second"
            )

"""The Berkeley Function-Calling Leaderboard as a task: its data, simulated APIs and checkers, from PyPI's bfcl-eval."""

"""The half that runs in the sandbox's own processes: started as a package named ``inside``, standard library only.

Kept apart so that the sandbox never imports ``agent_envs``, and small because each run pays for its imports.
"""

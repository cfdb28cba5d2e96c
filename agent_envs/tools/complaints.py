"""Words for wrong arguments: which one, what is expected, what came. The policy reads them and can mend its call."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from typing import Any

MAX_COMPLAINTS = 5
MAX_SHOWN_VALUE = 80


def whole_complaint(tool_name: str, complaints: Sequence[str]) -> str:
    """One line on all that is wrong with a call; a long list is cut."""
    shown = list(complaints[:MAX_COMPLAINTS])
    if len(complaints) > MAX_COMPLAINTS:
        shown.append(f"and {len(complaints) - MAX_COMPLAINTS} more")
    return f"the arguments of {tool_name} are wrong: {'; '.join(shown)}"


def missing(where: str) -> str:
    """A required argument that did not come."""
    return f"{where}: required, but missing"


def unknown(where: str, name: str, known: Iterable[str]) -> str:
    """An argument that there is not, with the name that was probably meant and all that there are, if they're given."""
    names = list(known)
    hints = did_you_mean(name, names) + (f"the known ones are: {', '.join(names)}" if names else "")
    return f"{where}: no such argument" + (f" ({hints})" if hints else "")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """A question that ends in a space, or nothing where no known name is close."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}? " if close else ""


def unfit(where: str, expected: str, value: Any) -> str:
    """A value of the wrong kind."""
    return f"{where}: {expected} (got {show(value)})"


def show(value: Any) -> str:
    """A value as JSON, shortened."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= MAX_SHOWN_VALUE else f"{text[: MAX_SHOWN_VALUE - 3]}..."

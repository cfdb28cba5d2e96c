"""What a docstring says of a function."""

from __future__ import annotations

from agent_envs.tools.docstring import read_docstring


def documented() -> None:
    """Do one thing
    over two lines.

    A sentence with Args: in it, for people.

    Args:
        plain: a note.
        typed (list[int], optional): a note: with a colon
            over two lines.
        bare:
            only below.

    Returns:
        nothing: at all.
    """


def undocumented() -> None: ...


def test_the_first_paragraph_and_the_notes_are_read() -> None:
    description, notes = read_docstring(documented)
    assert description == "Do one thing over two lines."
    assert notes == {"plain": "a note.", "typed": "a note: with a colon over two lines.", "bare": "only below."}


def test_no_docstring_says_nothing() -> None:
    assert read_docstring(undocumented) == ("", {})

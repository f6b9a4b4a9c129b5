"""`Cursor`: a position in a short text, for recursive-descent parsers whose errors state the position."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from inspector.errors import ModuleError

_LONG = 1000  # characters from which parsing as an array is faster
_SAFE_DIGITS = 18  # digits that always fit into 64 bits

_SHOWN_BEFORE, _SHOWN_AFTER = 30, 20


class Cursor:
    """Reads tokens from a text. White space between tokens is skipped."""

    def __init__(self, text: str, subject: str) -> None:
        """Starts at the beginning of `text`. `subject` names the text in messages, such as "replica groups"."""
        self.text = text
        self.subject = subject
        self.position = 0

    def at(self, token: str) -> bool:
        """Reports whether `token` comes next."""
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1
        return self.text.startswith(token, self.position)

    def accept(self, token: str) -> bool:
        """Reads `token` if it comes next, and reports whether it did."""
        is_next = self.at(token)
        self.position += len(token) if is_next else 0
        return is_next

    def expect(self, token: str) -> None:
        """Reads `token`.

        Raises:
          ModuleError: another token comes next.
        """
        if not self.accept(token):
            raise self.error(repr(token))

    def end(self) -> None:
        """Raises a ModuleError unless the text is read to its end."""
        if not self.at("") or self.position < len(self.text):
            raise self.error("the end")

    def integer(self) -> int:
        """Reads an integer, negative ones included."""
        self.at("")
        end = self.position + self.text.startswith("-", self.position)
        while end < len(self.text) and self.text[end] in "0123456789":
            end += 1
        digits = self.text[self.position : end]
        if digits in ("", "-"):
            raise self.error("an integer")
        self.position = end
        return int(digits)

    def integers(self, close: str) -> tuple[int, ...]:
        """Reads integers separated by commas, up to and including `close`."""
        plain = self.plain_integers(close)
        if plain is not None:
            return tuple(plain.tolist())
        end = self.text.find(close, self.position)
        if end < 0:
            raise self.error(repr(close))
        words = self.text[self.position : end].split(",")
        if words == [""] or (len(words) == 1 and words[0].isspace()):
            words = []
        numbers = []
        for word in words:
            digits = word.strip()
            if not (digits.isascii() and digits.removeprefix("-").isdigit()):
                raise self.error(f"integers up to {close!r}")
            numbers.append(int(digits))
        self.position = end + len(close)
        return tuple(numbers)

    def plain_integers(self, close: str) -> npt.NDArray[np.int64] | None:
        """Reads many integers, up to and including `close`.

        Returns None and reads nothing if the text is short or contains other characters than digits and commas.
        """
        end = self.text.find(close, self.position)
        plain = _plain_integers(self.text[self.position : end]) if end - self.position > _LONG else None
        if plain is not None:
            self.position = end + len(close)
        return plain

    def plain_lists(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
        """Reads lists of integers, such as `{{0,1},{2,3}}`, that consist of digits, commas and braces only.

        Returns:
          All integers in order, and the length of each list. None, with nothing read, if the text is not such a list or a
          list is empty.
        """
        start, end = self.position + 2, self.text.find("}}", self.position)
        if end < 0 or not self.text.startswith("{{", self.position):
            return None
        lists = self.text[start:end]
        if not lists.isascii():
            return None
        characters = _characters(lists)
        commas = np.flatnonzero(characters == ord(","))
        is_last = characters[commas - 1] == ord("}")  # whether the integer before a comma is the last of its list
        digits = np.diff(commas, prepend=-1, append=len(characters)) - 1
        digits[:-1] -= is_last
        digits[1:] -= is_last
        integers = _plain_integers(lists.replace("},{", ","), digits)
        if integers is None:
            return None
        self.position = end + 2
        return integers, np.diff(np.flatnonzero(is_last), prepend=-1, append=len(integers) - 1)

    def until(self, stop: str) -> str:
        """Reads a bare word that ends before `stop`."""
        self.at("")
        end = self.text.find(stop, self.position)
        if end < 0:
            raise self.error(f"a name and {stop!r}")
        word = self.text[self.position : end]
        self.position = end
        return word

    def quoted(self) -> str:
        """Reads a name in single or double quotes."""
        quote = '"' if self.at('"') else "'"
        self.expect(quote)
        end = self.text.find(quote, self.position)
        if end < 0:
            raise self.error(f"the closing {quote}")
        name = self.text[self.position : end]
        self.position = end + 1
        return name

    def error(self, expected: str) -> ModuleError:
        """Returns the error for a token other than `expected` at the current position."""
        start, stop = max(0, self.position - _SHOWN_BEFORE), self.position + _SHOWN_AFTER
        before = ("…" if start else "") + self.text[start : self.position]
        after = self.text[self.position : stop] + ("…" if stop < len(self.text) else "")
        return ModuleError(
            f"Cannot read {self.subject} at position {self.position}: expected {expected},"
            f" got {after!r} after {before!r}."
        )


def _characters(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


def _plain_integers(text: str, digits: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.int64] | None:
    """Parses integers separated by commas; None if there are none or if the text contains other characters.

    Args:
      text: the text.
      digits: number of digits of each integer, if known.
    """
    if not text.isascii() or text.encode().translate(None, b"0123456789,"):
        return None
    if digits is None:
        digits = np.diff(np.flatnonzero(_characters(text) == ord(",")), prepend=-1, append=len(text)) - 1
    if digits.min() < 1 or digits.max() > _SAFE_DIGITS:
        return None
    return np.fromstring(text, np.int64, sep=",")

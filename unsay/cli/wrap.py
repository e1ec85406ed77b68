"""Breaking a stream of text into lines that fit a terminal, by words and by Japanese rules."""

from unsay.transcript.text import cells_of

NO_START = frozenset(
    "。、，．・：；？！」』）］｝〉》】〕’”…ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ,.:;?!)]}%"
)
"""What may not begin a line. Source: JIS X 4051, line start prohibition rule, abridged."""

NO_END = frozenset("「『（［｛〈《【〔‘“([{")
"""What may not end a line. Source: JIS X 4051, line end prohibition rule."""


class Wrap:
    r"""Lays out text that arrives in pieces; the last word is held until it is complete.

    >>> wrap = Wrap(columns=7)
    >>> wrap.feed("one two thr") + wrap.feed("ee") + wrap.end()
    'one two\nthree'
    """

    def __init__(self, *, columns: int, indent: int = 0) -> None:
        """Begin a line whose first cells the caller fills.

        Args:
            columns: Of the terminal, in cells.
            indent: Cells taken in the first line, and left free in all others.
        """
        self._columns = max(columns, indent + 2)
        self._indent = indent
        self._column = indent
        self._blanks = ""
        self._word = ""
        self.rows = 0
        """How many lines were ended so far."""

    def feed(self, text: str) -> str:
        """What can be printed now that this piece has come."""
        return "".join(self._take(char) for char in text)

    def end(self) -> str:
        """The word that was held."""
        return self._flush()

    def _take(self, char: str) -> str:
        if char == "\n":
            done = self._flush()
            self._blanks, self._column = "", self._indent
            self.rows += 1
            return done + "\n" + " " * self._indent
        if char.isspace():
            done = self._flush()
            self._blanks += char
            return done
        done = self._flush() if self._breaks_before(char) else ""
        self._word += char
        return done

    def _breaks_before(self, char: str) -> bool:
        """Whether a line may end between the held word and this character."""
        if not self._word or char in NO_START or self._word[-1] in NO_END:
            return False
        return cells_of(char) == 2 or cells_of(self._word[-1]) == 2

    def _flush(self) -> str:
        word, self._word = self._word, ""
        if not word:
            return ""
        blanks, self._blanks = self._blanks, ""
        done = ""
        if self._column > self._indent and self._too_long(blanks + word):
            done, blanks = self._new_line(), ""
        return done + self._split(blanks + word)

    def _too_long(self, text: str) -> bool:
        return self._column + cells_of(text) > self._columns

    def _new_line(self) -> str:
        self.rows += 1
        self._column = self._indent
        return "\n" + " " * self._indent

    def _split(self, word: str) -> str:
        """A word, broken where even a line of its own is too short for it."""
        done = ""
        for char in word:
            if self._too_long(char):
                done += self._new_line()
            done += char
            self._column += cells_of(char)
        return done


def wrapped(text: str, *, columns: int, indent: int = 0) -> str:
    r"""A whole text in lines.

    >>> wrapped("何も変更していません。", columns=10)
    '何も変更し\nていませ\nん。'
    """
    wrap = Wrap(columns=columns, indent=indent)
    return wrap.feed(text) + wrap.end()

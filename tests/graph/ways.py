"""Ways back and forth, as steps of a stage."""

from hypothesis import strategies as st
from langchain_core.messages import message_to_dict

from tests.graph.steps import step
from tests.reading import replayed
from unsay.conversation.conversation import Conversation
from unsay.errors import UnknownBranchError

PLACES = st.integers(0, 9)


class Ways:
    """Somebody goes back and forth in the thread of `talk`."""

    conversation: Conversation
    forks: int = 0

    @step(2)
    def redo(self) -> None:
        """Somebody makes the step again that was undone last."""
        self.conversation.redo()

    @step()
    def retry(self) -> None:
        """Somebody wants another answer to the last question."""
        self.conversation.retry()

    @step(turns=st.integers(1, 3))
    def turns_back(self, turns: int) -> None:
        """Somebody goes some turns back."""
        self.conversation.preview(turns=turns)
        self.conversation.rollback(turns=turns)

    @step(2, position=PLACES)
    def restore(self, position: int) -> None:
        """Restore what was removed."""
        self.conversation.restore(self._abandoned(position))

    @step(position=PLACES, which=PLACES)
    def pick(self, position: int, which: int) -> None:
        """Somebody takes a message of an abandoned line over."""
        branch = self._abandoned(position)
        # A crash can leave a stored branch whose event was never committed.
        cut = replayed(self.conversation).branches.get(branch, ())
        if cut:
            self.conversation.pick([cut[which % len(cut)].id or ""], branch)

    @step()
    def fork(self) -> None:
        """Continue in a fork with everything that was answered in this thread."""
        self.forks += 1
        fork = self.conversation.fork(thread=f"fork-{self.forks}")
        transcript = [message_to_dict(message) for message in fork.messages()]
        source = [message_to_dict(message) for message in self.conversation.messages()]
        assert transcript == source[: len(transcript)]
        assert transcript == [message_to_dict(m) for m in replayed(fork).messages]

    def _abandoned(self, position: int) -> str:
        lines = [
            branch.id for branch in self.conversation.branches() if branch.id.startswith("branch-")
        ]
        if not lines:
            raise UnknownBranchError("nothing was cut yet")
        return lines[position % len(lines)]

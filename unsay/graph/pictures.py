"""Being written."""


def mimebundle(timeline):  # type: ignore
    return {"text/plain": str(timeline)}


def tree_text(timeline, color=False):  # type: ignore
    return str(timeline)

"""An MCP server on standard input and output, with one tool."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("legs")


@server.tool()
def count_legs(animal: str) -> str:
    """Count the legs of an animal."""
    return f"{animal}: 8"


if __name__ == "__main__":
    server.run()

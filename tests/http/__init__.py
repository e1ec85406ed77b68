"""End to end: unsay with `ChatOpenAI` over HTTP, against servers of the OpenAI protocol on loopback."""

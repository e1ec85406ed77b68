"""Other code that reads or writes our threads: inputs, parents, servers, time travel."""

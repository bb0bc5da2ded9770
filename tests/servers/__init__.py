"""Small MCP servers that tests start: a well-behaved one, and the ill-behaved ones of `hostile`."""

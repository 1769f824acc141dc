"""The MCP server: the memory as tools and resources, over stdio and streamable HTTP."""

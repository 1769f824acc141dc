"""Who asks: command line, and later MCP, REST and the dashboard."""

"""A language model, if there is one: the port, its adapters, what is asked of it. What it says is a proposal, never a decision."""

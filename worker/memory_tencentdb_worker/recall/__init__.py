"""Recall: from a query to the few memories that fit it, within a deadline and a token budget."""

"""Pages, figures and tables of results."""

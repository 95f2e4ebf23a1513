"""Output for people: tables, progress and live views."""

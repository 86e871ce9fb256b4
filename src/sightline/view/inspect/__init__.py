"""Figures, tables and page of an inspection."""

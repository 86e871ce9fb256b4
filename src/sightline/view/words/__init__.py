"""Sentences for people: what a report says in words, on the page and in the terminal."""

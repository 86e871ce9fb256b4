"""The page of a whole corpus."""

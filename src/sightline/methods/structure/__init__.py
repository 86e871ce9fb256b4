"""Values of a document's units along its structure: coalition games, exact and sampled Owen values."""

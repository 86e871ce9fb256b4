"""Everything that is stored or drawn: explanations, verdicts, reports, continuations, and their stored forms."""

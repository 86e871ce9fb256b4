"""`python -m sightline.text.chat_rendering`: apply one chat template, within bounds on time and memory.

Reads a JSON object with template, messages, the names of the special tokens and the longest text from standard input,
and writes one with either "text" or "error". The template runs as transformers runs it.
"""

from __future__ import annotations

import json
import sys

from sightline.files.processes import limit_resources

CPU_SECONDS = 10
MEMORY = 1_000_000_000
"""Most bytes of memory for rendering, besides those of the library."""


def main() -> None:
    """Render the template of the request on standard input."""
    request = json.load(sys.stdin)
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({})), **request["tokens"])
    limit_resources(MEMORY, CPU_SECONDS)
    try:
        text = tokenizer.apply_chat_template(
            request["messages"], chat_template=request["template"], tokenize=False, add_generation_prompt=True
        )
        if len(text) > request["longest"]:
            raise ValueError(f"it makes a text of {len(text):,} characters")
        answer = {"text": text}
    except MemoryError:
        return
    except Exception as error:  # a template may raise whatever Jinja or its own author chose
        answer = {"error": str(error) or type(error).__name__}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()

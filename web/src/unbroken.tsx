// Sentences with numbers.

/** The text with its percentages in one piece each, so that no line ends between a number and its sign. */
export function unbroken(text: string) {
  return text.split(/(\(?[<>]? ?[\d.]+ %\)?)/).map((piece, i) => (i % 2 ? <span key={i} class="whole">{piece}</span> : piece));
}

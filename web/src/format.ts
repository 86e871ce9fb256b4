// Numbers and words as people write them; sightline/view/words/sentences.py says them the same way.

/** Three significant digits with the sign: +0.312, −1.2e-5, 0. */
export function signedNumber(value: number): string {
  if (value === 0) return "0";
  return (value < 0 ? "−" : "+") + digits(Math.abs(value));
}

export function plainNumber(value: number): string {
  return value < 0 ? "−" + digits(-value) : digits(value);
}

function digits(size: number): string {
  if (size === 0) return "0";
  return size >= 0.001 && size < 1e5 ? String(Number(size.toPrecision(3))) : size.toExponential(1);
}

/** Never 0 % for something, never 100 % for less than all. */
export function percent(share: number): string {
  if (share === 0 || share === 1) return `${100 * share} %`;
  if (share < 0.0005) return "< 0.1 %";
  if (share >= 0.9995) return "> 99.9 %";
  return `${(100 * share).toFixed(share < 0.0995 || share >= 0.995 ? 1 : 0)} %`;
}

export function count(n: number): string {
  return n.toLocaleString("en");
}

export function plural(n: number, noun: string): string {
  return `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
}

/** A word with nothing to see (a control character, a lone mark) by its code points. */
export function visible(text: string): string {
  if (!/^[\p{C}\p{Z}\p{M}]*$/u.test(text)) return text;
  return [...text].map((c) => "U+" + c.codePointAt(0)!.toString(16).toUpperCase()).join(" ");
}

/** A long word or sentence with its middle left out; words stay whole unless they fill half of it. */
export function shortened(text: string, longest = 60): string {
  const shown = visible(text);
  if (shown.length <= longest) return shown;
  const half = Math.floor(longest / 2) - 1;
  const [start, end] = [shown.slice(0, half + 1), shown.slice(-half - 1)];
  const [stop, go] = [start.lastIndexOf(" "), end.indexOf(" ") + 1];
  const first = stop >= half / 2 ? start.slice(0, stop) : start.slice(0, half);
  const last = go > 0 && go <= half / 2 + 1 ? end.slice(go) : end.slice(1);
  return `${first} … ${last}`;
}

/** A share in percent without the sign "%": 12, 1.3, 0.04, < 0.01. */
export function percentNumber(share: number): string {
  const value = 100 * Math.abs(share);
  if (value === 0) return "0";
  if (value < 0.01) return "< 0.01";
  return value >= 9.95 ? value.toFixed(0) : value >= 0.095 ? value.toFixed(1) : value.toFixed(2);
}

/** Scores as shares of the total of absolute scores, with their sign. */
export class ShareFormat {
  constructor(
    readonly total: number,
    readonly signed: boolean,
  ) {}

  of(score: number): number {
    return this.total ? score / this.total : 0;
  }

  /** "+1.3", in percent. */
  value(score: number): string {
    const share = this.of(score);
    const sign = share < 0 ? "−" : this.signed && share > 0 ? "+" : "";
    const number = percentNumber(share);
    // "> −0.01" and "< +0.01", not "−< 0.01".
    return number.startsWith("< ") ? `${share < 0 ? ">" : "<"} ${sign}${number.slice(2)}` : sign + number;
  }

  /** "+1.3 %". */
  share(score: number): string {
    return `${this.value(score)} %`;
  }

  /** The score itself: "score +0.000362". */
  raw(score: number): string {
    return `score ${this.signed ? signedNumber(score) : plainNumber(score)}`;
  }
}

/** How to write raw scores of one column with one power of ten: the numbers, and "× 10⁻⁶" (empty for 10⁰). */
export function commonExponent(largest: number): { note: string; write(value: number): string } {
  const power = largest > 0 && (largest < 0.1 || largest >= 1e5) ? 3 * Math.floor(Math.log10(largest) / 3) : 0;
  const scaled = largest / 10 ** power;
  const decimals = Math.max(0, 2 - Math.floor(Math.log10(scaled || 1)));
  const raised = [...String(power)].map((digit) => (digit === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)])).join("");
  return {
    note: power ? `× 10${raised}` : "",
    write: (value) => (value < 0 ? "−" : "") + Math.abs(value / 10 ** power).toFixed(decimals),
  };
}

/** Positions as ranges: 3, 4, 5, 9 → "3–5, 9". */
export function ranges(positions: ArrayLike<number>): string {
  const parts: string[] = [];
  for (let i = 0; i < positions.length; i++) {
    let last = i;
    while (last + 1 < positions.length && positions[last + 1] === positions[last] + 1) last++;
    parts.push(last > i ? `${positions[i]}–${positions[last]}` : String(positions[i]));
    i = last;
  }
  return parts.join(", ");
}

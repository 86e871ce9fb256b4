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

/** A long word or sentence with its middle left out. */
export function shortened(text: string, longest = 60): string {
  const shown = visible(text);
  const half = Math.floor(longest / 2) - 1;
  return shown.length <= longest ? shown : `${shown.slice(0, half)} … ${shown.slice(-half)}`;
}

/** Scores of long documents can be tiny: they are shown in units of one power of ten, which the scale names. */
export class NumberFormat {
  readonly power: number;

  constructor(
    full: number,
    readonly signed: boolean,
  ) {
    this.power = full > 0 && (full < 0.01 || full >= 1000) ? Math.floor(Math.log10(full)) : 0;
  }

  /** The number in units of 10^power. */
  value(score: number): string {
    const scaled = score / 10 ** this.power;
    return this.signed ? signedNumber(scaled) : plainNumber(scaled);
  }

  /** " × 10⁻⁴", or nothing. */
  get times(): string {
    if (!this.power) return "";
    return " × 10" + [...String(this.power)].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("");
  }

  /** What " × 10⁻⁴" means, or nothing. */
  get explained(): string | undefined {
    if (!this.power) return undefined;
    const unit = Math.abs(this.power) <= 6 ? Number(`1e${this.power}`).toFixed(Math.max(0, -this.power)) : `1e${this.power}`;
    return `Scores are shown in units of ${unit}: 2 means 2${this.times}.`;
  }

  full(score: number): string {
    const size = Math.abs(score);
    // What is tiny even in these units gets its own: −6.2 × 10⁻⁸, not −6.2e-4 × 10⁻⁴.
    if (this.power && size > 0 && size < 10 ** (this.power - 3)) return new NumberFormat(size, this.signed).full(score);
    return this.value(score) + this.times;
  }
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

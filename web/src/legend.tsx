// The scale of colours with the real values at its marks.

import { plural } from "./format";
import type { Picture } from "./reading";
import { colourClass } from "./reading";

interface Tick {
  place: number;
  value: number;
}

/** Marks of the scale: its ends, its middle and half-way steps, as shares of its width and as scores. */
export function ticks(picture: Picture): Tick[] {
  const { scale, reading } = picture;
  const steps = scale.starts.length;
  const half = scale.starts[Math.floor(steps / 2)];
  const round = (value: number) => Number(value.toPrecision(2));
  const side = [
    { place: 0, value: round(scale.starts[steps - 1]) },
    { place: 0.5, value: round(half) },
  ];
  if (!reading.signed) return [...side, { place: 1, value: 0 }];
  return [
    ...side.map(({ place, value }) => ({ place: place / 2, value })),
    { place: 0.5, value: 0 },
    ...side.reverse().map(({ place, value }) => ({ place: 1 - place / 2, value: -value })),
  ];
}

export function Legend({ picture }: { picture: Picture }) {
  const { reading, scale, format } = picture;
  const steps = scale.starts.length;
  const down = Array.from({ length: steps }, (_, i) => steps - i);
  const shown = reading.signed ? [...down, 0, ...down.map((step) => -step).reverse()] : [...down, 0];
  const meaning = reading.signed
    ? "Blue words support the target, orange words oppose it"
    : "Darker violet means more important";
  return (
    <div
      class="legend"
      role="img"
      aria-label={`Colour scale. ${meaning}; strongest colour from ${format.share(scale.starts[steps - 1] ?? 0)} of the total.`}
    >
      <div class="ends">
        <span>{reading.signed ? "for" : "important"}</span>
        <span title="Share of the total of absolute word scores">% of the total</span>
        <span>{reading.signed ? "against" : "unimportant"}</span>
      </div>
      <div class="ramp">
        {shown.map((step) => (
          <i key={step} class={colourClass(step, reading.signed)} />
        ))}
      </div>
      <div class="ticks">
        {ticks(picture).map(({ place, value }) => (
          <span key={place} title={format.raw(value)} style={{ left: `${100 * place}%` }}>
            {format.value(value)}
          </span>
        ))}
      </div>
      {picture.artefacts.size > 0 && (
        <p class="quiet" data-section="artefact-legend">
          A dotted line marks {plural(picture.artefacts.size, "artefact")}: the score belongs to the position, not to the word.
        </p>
      )}
    </div>
  );
}

// Colours for canvases, read from the style sheet so that they follow the theme.

export class Palette {
  private readonly style: CSSStyleDeclaration;

  constructor(element: Element) {
    this.style = getComputedStyle(element);
  }

  variable(name: string): string {
    return this.style.getPropertyValue(`--${name}`).trim();
  }

  /** The colour of a step with its sign. */
  step(step: number, signed: boolean): string {
    const hue = !signed ? "plain" : step > 0 ? "for" : "against";
    return step === 0 ? this.variable("background") : this.variable(`${hue}-${Math.abs(step)}`);
  }

  /** 256 colours from the background to the darkest colour of maps, three bytes each. */
  ramp(): Uint8Array {
    const [low, high] = [rgb(this.variable("background")), rgb(this.variable("map"))];
    const colours = new Uint8Array(256 * 3);
    for (let q = 0; q < 256; q++) {
      for (let c = 0; c < 3; c++) colours[3 * q + c] = Math.round(low[c] + ((high[c] - low[c]) * q) / 255);
    }
    return colours;
  }
}

export function rgb(colour: string): [number, number, number] {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)) as [number, number, number];
}

/** A map of values 0 … 255 as an image. */
export function mapImage(values: ArrayLike<number>, width: number, height: number, ramp: Uint8Array): ImageData {
  const image = new ImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    const at = 3 * values[i];
    image.data[4 * i] = ramp[at];
    image.data[4 * i + 1] = ramp[at + 1];
    image.data[4 * i + 2] = ramp[at + 2];
    image.data[4 * i + 3] = 255;
  }
  return image;
}

/** Size a canvas to its box on this screen and return its pen, in CSS pixels. */
export function pen(canvas: HTMLCanvasElement): { context: CanvasRenderingContext2D; width: number; height: number } {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = devicePixelRatio;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const context = canvas.getContext("2d")!;
  context.scale(ratio, ratio);
  return { context, width, height };
}

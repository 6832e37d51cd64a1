/** A width, a height or both, in pixels, that anyone may request. */
export interface Size {
  readonly width: number | undefined;
  readonly height: number | undefined;
}

export const MAX_SIDE_PIXELS = 8192;
const SIZE = /^(\d{1,4})?(?:x(\d{1,4}))?$/;

/** `320`, `x200` or `640x480`; undefined for anything else. */
export function parseSize(text: string): Size | undefined {
  const found = text === '' ? null : SIZE.exec(text);
  if (!found) return undefined;
  const [width, height] = found.slice(1).map((each) => (each ? Number(each) : undefined));
  if (width === undefined && height === undefined) return undefined;
  if (![width, height].every((side) => side === undefined || isSide(side))) return undefined;
  return { width, height };
}

export function isSide(side: number): boolean {
  return side >= 1 && side <= MAX_SIDE_PIXELS;
}

export function isSameSize(a: Size, b: Size): boolean {
  return a.width === b.width && a.height === b.height;
}

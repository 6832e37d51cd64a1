export { type PictureOptions, Pictures } from './pictures.js';
export type { Fit, Format, Variant } from './variant.js';

/**
 * Stored pictures in other sizes.
 *
 * @module @stevedore/pictures
 */
export { type PictureOptions, Pictures } from './pictures.js';
export type { Fit, Format, Variant } from './variant.js';
export { parseSize } from './variant.js';

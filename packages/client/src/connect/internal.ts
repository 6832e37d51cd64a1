/**
 * What the middleware needs beside what users see. Not published; loads no native module.
 *
 * @module @stevedore/client/connect/internal
 */
export { givenText } from '@stevedore/options';
export { storeErrorOf } from '@stevedore/staging/errors';
export { groupOf } from '../affinity.js';
export { demandUnread } from '../body-kinds.js';
export { invalidOption } from '../options.js';
export { parseTime } from '../texts.js';
export { connectOptions } from './options.js';

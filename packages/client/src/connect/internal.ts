/**
 * What the middleware needs beside what users see. Not published; loads no native module.
 *
 * @module @stevedore/client/connect/internal
 */
export { givenText } from '@stevedore/options';
export { storeErrorOf } from '@stevedore/staging/errors';
export { parseTime } from '../list/texts.js';
export { invalidOption } from '../options.js';
export { groupOf } from '../put/affinity.js';
export { demandUnread } from '../put/body-kinds.js';
export { connectOptions } from './options.js';

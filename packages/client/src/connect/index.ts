/**
 * The store over HTTP, and what it shares with `open()`. Needs neither a disk nor a native module.
 *
 * @module @stevedore/client/connect
 */
export { givenText } from '@stevedore/options';
export {
  isStoreError,
  StoreError,
  type StoreErrorCode,
  storeErrorOf,
} from '@stevedore/staging/errors';
export * from '../affinity.js';
export { demandUnread } from '../body-kinds.js';
export type { ConnectOptions } from '../given-options.js';
export { GatewayRefusal } from '../http/errors.js';
export { invalidOption } from '../options.js';
export { parseTime } from '../texts.js';
export type * from '../types.js';
export { connect } from './connect.js';
export { connectOptions } from './options.js';

/**
 * The store over HTTP, and what it shares with `open()`. Needs neither a disk nor a native module.
 *
 * @module @stevedore/client/connect
 */
export { isStoreError, StoreError, type StoreErrorCode } from '@stevedore/staging/errors';
export {
  type AffinityFunction,
  type AffinityRequest,
  byForm,
  byPage,
  byPathPrefix,
  firstOf,
} from '../affinity.js';
export type { ConnectOptions } from '../given-options.js';
export { GatewayRefusal } from '../http/errors.js';
export type * from '../types.js';
export { connect } from './connect.js';

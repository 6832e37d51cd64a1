/**
 * The store over HTTP, and what it shares with `open()`. Needs neither a disk nor a native module.
 *
 * @module @stevedore/client/connect
 */
export { isStoreError, StoreError, type StoreErrorCode } from '@stevedore/staging/errors';
export type { ConnectOptions } from '../given-options.js';
export {
  type AffinityFunction,
  type AffinityRequest,
  byForm,
  byPage,
  byPathPrefix,
  firstOf,
} from '../put/affinity.js';
export type * from '../store/types.js';
export { connect } from './connect.js';
export { GatewayRefusal } from './errors.js';

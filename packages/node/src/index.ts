/** A storage with its metadata tiers; see also `@stevedore/node/embedded`. */
export { type Storage, type StorageOptions, startStorage } from './start-storage.js';

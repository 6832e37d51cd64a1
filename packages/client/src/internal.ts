/**
 * What the gateway and the command line need of a store, beside what users see. Not published.
 *
 * @module @stevedore/client/internal
 */
export {
  type DeploymentMap,
  type List,
  MapError,
  type MapErrorCode,
  openDriver,
  openMap,
  originOf,
  type Row,
  type Setting,
  type SqlDriver,
  SqlMap,
  type Topic,
  type Value,
} from '@stevedore/map';
export { DirectoryLock } from '@stevedore/staging';
export {
  type ClusterFinding,
  inspectCluster,
  readClusterSecrets,
} from './cluster.js';
export { parseConnectOptions } from './connect/options.js';
export { type AdoptionReport, adoptOrigin } from './deployment/ask-adoption.js';
export type { MapReport } from './deployment/map-check.js';
export type { MapRebuildReport } from './deployment/map-rebuild.js';
export { tunnelName } from './deployment/partners.js';
export {
  MAX_FACTS_BYTES,
  MAX_FACTS_KEYS,
  type ToldFile,
  writeFacts,
} from './deployment/peer-facts.js';
export {
  answerProof,
  isPeerToken,
  PEER_FILE_HEADER,
  PEER_HEADER,
  type PeerSecret,
  peerRequests,
} from './deployment/peer-seals.js';
export { tryReach } from './deployment/reach.js';
export { throughRestart } from './deployment/restarts.js';
export type { GatewayStore } from './gateway-store.js';
export type { CachedFile, CachedFiles } from './holders/files-in-memory.js';
export { readAll } from './http/answers.js';
export { refusalIn } from './http/errors.js';
export { type Request, Requests } from './http/requests.js';
export {
  checkDeploymentMap,
  type DeploymentFinding,
  inspectDeployment,
  mapSecretOf,
  rebuildDeploymentMap,
} from './map-upkeep.js';
export {
  discardFileMap,
  drainGateway,
  fillMap,
  openForGateway,
  openForUpkeep,
  type Upkeep,
} from './open.js';
export {
  asStoreError,
  checkStoreOptions,
  flushTimeoutOf,
  invalidOption,
  type StoreOptions,
  storeOptions,
} from './options.js';
export {
  openSharedDirectory,
  otherWorkers,
  workerDirectory,
} from './shared-directory.js';
export { folded, parseTime } from './texts.js';

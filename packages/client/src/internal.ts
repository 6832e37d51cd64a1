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
export { type AdoptionReport, adoptOrigin } from './adoption/ask-adoption.js';
export { readAll } from './connect/answers.js';
export { refusalIn } from './connect/errors.js';
export { parseConnectOptions } from './connect/options.js';
export { type Request, Requests } from './connect/requests.js';
export type { MapReport } from './deployment/map-check.js';
export type { MapRebuildReport } from './deployment/map-rebuild.js';
export {
  checkDeploymentMap,
  type DeploymentFinding,
  drainGateway,
  fillMap,
  inspectDeployment,
  mapSecretOf,
  rebuildDeploymentMap,
} from './deployment/map-upkeep.js';
export { tunnelName } from './deployment/partners.js';
export type { CachedFile, CachedFiles } from './holders/files-in-memory.js';
export {
  MAX_FACTS_BYTES,
  MAX_FACTS_KEYS,
  type ToldFile,
  writeFacts,
} from './holders/peer-facts.js';
export {
  answerProof,
  isPeerToken,
  PEER_FILE_HEADER,
  PEER_HEADER,
  type PeerSecret,
  peerRequests,
} from './holders/peer-seals.js';
export { tryReach } from './holders/reach.js';
export { throughRestart } from './holders/restarts.js';
export { folded, parseTime } from './list/texts.js';
export {
  asStoreError,
  checkStoreOptions,
  flushTimeoutOf,
  invalidOption,
  type StoreOptions,
  storeOptions,
} from './options.js';
export {
  type ClusterFinding,
  inspectCluster,
  readClusterSecrets,
} from './store/cluster.js';
export type { GatewayStore } from './store/gateway-store.js';
export {
  discardFileMap,
  type GatewayParts,
  openForGateway,
  openForUpkeep,
  type Upkeep,
} from './store/open.js';
export {
  openSharedDirectory,
  otherWorkers,
  workerDirectory,
} from './store/shared-directory.js';

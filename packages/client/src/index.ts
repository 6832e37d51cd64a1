/**
 * The SDK: `open()` opens a store of files.
 *
 * @module @stevedore/client
 */
export { originOf } from '@stevedore/map';
export type {
  Damage,
  DamageEvent,
  DamageStats,
  FsckProblem,
  FsckReport,
  ScrubOptions,
  ScrubReport,
  ScrubStats,
  TrunkEvent,
  UpkeepOptions,
} from '@stevedore/staging';
export {
  DirectoryLock,
  isStoreError,
  StoreError,
  type StoreErrorCode,
} from '@stevedore/staging';
export * from './affinity.js';
export {
  type DeleteMessage,
  type GetMessage,
  type PutMessage,
  type ReadMessage,
  STORE_CHANNELS,
  type TrunkMessage,
} from './channels.js';
export {
  type ClusterFinding,
  inspectCluster,
  type ProbeFinding,
  readClusterSecrets,
  type StorageMember,
  type TrackerFinding,
} from './cluster.js';
export { parseConnectOptions } from './connect/options.js';
export { type AdoptionReport, adoptOrigin } from './deployment/ask-adoption.js';
export type { MapProblem, MapReport } from './deployment/map-check.js';
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
export { flushTimeoutOf } from './flush.js';
export type { OpenOptions } from './given-options.js';
export { readAll } from './http/answers.js';
export { refusalIn } from './http/errors.js';
export { type Request, Requests } from './http/requests.js';
export {
  checkDeploymentMap,
  type DeploymentFinding,
  inspectDeployment,
  rebuildDeploymentMap,
} from './map-upkeep.js';
export * from './open.js';
export {
  asStoreError,
  checkStoreOptions,
  invalidOption,
  type StoreOptions,
  storeOptions,
} from './options.js';
export type { CopyAtStorage, DiskPlace, FilePlaces, TrunkPlace } from './places.js';
export {
  openSharedDirectory,
  otherWorkers,
  type SharedDirectory,
  workerDirectory,
} from './shared-directory.js';
export type { SiblingOptions } from './siblings.js';
export { recordSpans, type SpanLike, type TracerLike } from './spans.js';
export { folded, parseTime } from './texts.js';
export * from './types.js';

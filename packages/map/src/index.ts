/** The map of a deployment: tells every web server which trunk holds the file of a key. */
export { MapError, type MapErrorCode, mapMismatch, originAdopted } from './errors.js';
export {
  type Adoption,
  type Claim,
  type Gateway,
  IN_USE_MS,
  isAlive,
  type Joined,
  type Joining,
  type ListedFile,
  type ListedTrunk,
  type LostFile,
  type MappedFile,
  originOf,
  type PlacedFile,
  RETURN_MS,
  type Removal,
  type RemovedFile,
  type Setting,
  type StagedFiles,
  type Trunk,
  type UsageAsk,
  type UsageGrant,
} from './map.js';
export { type MapOptions, openDriver, openMap } from './open-map.js';
export type { List, Row, SqlDriver, Topic, Value } from './sql-driver.js';
export { type DeploymentMap, SqlMap } from './sql-map.js';

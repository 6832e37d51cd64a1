export { type AccessLog, accessLog } from './access-log.js';
export type { ReplayInterval } from './interval.js';
export { defaultIor, type IorOptions, ior } from './ior.js';
export {
  type MetadataTraceOptions,
  metadataTrace,
  type Phase,
  paperMetadataTrace,
} from './metadata-trace.js';
export {
  type ClassResult,
  type ReplayOptions,
  type ReplayResult,
  replay,
} from './replay.js';
export type { ServerOptions } from './simulated-server.js';
export {
  type ReplayRequest,
  type RequestClass,
  type TimedRequest,
  together,
  type Workload,
} from './workload.js';

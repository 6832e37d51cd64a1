/** FastDFS frames over sockets, client and server side. */
export {
  type Address,
  checkAddress,
  DEFAULT_TRACKER_PORT,
  idOfAddress,
  isOwnAddress,
  makeAddress,
  parseAddress,
  plainAddress,
} from './address.js';
export { authenticate } from './client/authentication.js';
export { BodySource, type PreparedBody } from './client/body-source.js';
export {
  Caller,
  type CallPlan,
  type FailedExchange,
  type RequestMessage,
} from './client/caller.js';
export { keepSession, Peer, type PeerAccess, type PeerOptions } from './client/peer.js';
export { MAX_TIMER_MS, type PoolStats } from './client/pool.js';
export { type Call, ReceivedReply } from './client/reply.js';
export {
  AuthenticationError,
  asError,
  ConnectionError,
  codeOf,
  StartError,
  StatusError,
} from './errors.js';
export { type ConnectionEnds, FrameServer } from './server/frame-server.js';
export {
  type AccessOptions,
  type AccessSettings,
  accessSettings,
} from './server/guard.js';
export {
  type Context,
  control,
  type Handler,
  handlerTable,
  Payload,
  type Reply,
  receiving,
  type StreamedReply,
  streaming,
} from './server/handler.js';
export {
  type ConnectionLimits,
  type ConnectionOptions,
  connectionLimits,
  DEFAULT_HOST,
  DEFAULT_STORAGE_PORT,
  type Environment,
  nowSeconds,
  PROTOCOL_VERSION,
  randomDigits,
  systemEnvironment,
} from './server/limits.js';

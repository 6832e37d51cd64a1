/** FastDFS frames over sockets, both sides. */
export { FrameClient, type FrameClientOptions, type PeerAccess } from './client/frame-client.js';
export { keepSession, openToTracker } from './client/tracker-session.js';
export { type Environment, nowSeconds, randomDigits, systemEnvironment } from './environment.js';
export {
  AuthenticationError,
  asError,
  ConnectionError,
  codeOf,
  OptionError,
  StartError,
  StatusError,
  statusOf,
} from './errors.js';
export {
  type ConnectionLimits,
  type ConnectionOptions,
  checkInteger,
  connectionLimits,
  DEFAULT_HOST,
  DEFAULT_STORAGE_PORT,
  DEFAULT_TRACKER_PORT,
  type Endpoint,
  endpointText,
  idOfAddress,
  isOwnAddress,
  PROTOCOL_VERSION,
  parseEndpoint,
} from './options.js';
export {
  type AccessOptions,
  type AccessSettings,
  accessSettings,
  type WithoutSecret,
} from './server/access.js';
export { type ConnectionEnds, FrameServer } from './server/frame-server.js';
export {
  type Context,
  control,
  type Handler,
  handlerTable,
  type Reply,
  receiving,
  type StreamedReply,
  streaming,
} from './server/handler.js';
export { Payload } from './server/payload.js';

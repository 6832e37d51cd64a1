export {
  type ApiKey,
  makeApiKey,
  type NewApiKey,
  readKeyFile,
  type Scope,
  writeKeyFile,
} from './access/api-keys.js';
export { type AppOptions, buildApp } from './app.js';
export { defaultLimits, type GatewayOptions, gatewayOptions, type Limits } from './options.js';
export { type Gateway, type GatewayExtras, type GatewayInput, startGateway } from './start.js';

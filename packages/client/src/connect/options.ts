import { fromProgram, type OptionTable, option, parseOptions } from '@stevedore/options';
import type { ConnectOptions } from '../given-options.js';
import { asStoreError, invalidOption } from '../options.js';
import type { RequestsSettings } from './requests.js';

/** The options of `connect()`. */

export const connectOptions = {
  url: option.text(
    'http://127.0.0.1:8080',
    'URL of a gateway or of a proxy in front of several; may include a path',
  ),
  apiKey: option.text('', 'API key, if the gateway requires one'),
  connections: option.integer(64, 'most connections; large files use as many more', {
    minimum: 1,
    maximum: 10_000,
  }),
  connectTimeout: option.duration('5s', 'longest wait for a connection', {
    minimum: '1ms',
  }),
  answerTimeout: option.duration(
    '30s',
    'longest wait for an answer, and for the next piece of a body',
    { minimum: '1ms' },
  ),
  retryTime: option.duration(
    '15s',
    'longest time to retry a call, if that cannot store a file twice; 0: never',
    { maximum: '1h' },
  ),
} satisfies OptionTable;

/** Most requests for each connection, in flight or queued. */
const QUEUED_PER_CONNECTION = 64;

/** Throws StoreError `invalid_option`. */
export function parseConnectOptions(raw: ConnectOptions): RequestsSettings {
  const options = asStoreError(() => parseOptions(connectOptions, [fromProgram(raw)]));
  const url = URL.canParse(options.url) ? new URL(options.url) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.search !== '' || url.hash !== '') {
    throw invalidOption(
      `url: "${options.url}" is not the URL of a gateway; write it like http://10.0.0.5:8080`,
    );
  }
  if (url.username !== '' || !/^[\x21-\x7e]*$/.test(options.apiKey)) {
    throw invalidOption('a password in the url, or an apiKey with other than visible characters');
  }
  const { apiKey, connections } = options;
  const headers = apiKey === '' ? {} : { authorization: `Bearer ${apiKey}` };
  return {
    origin: url.origin,
    base: url.pathname.replace(/\/+$/, ''),
    connections,
    maxRequests: connections * QUEUED_PER_CONNECTION,
    identity: { headersOf: () => headers },
    connectTimeoutMs: options.connectTimeout,
    answerTimeoutMs: options.answerTimeout,
    retryTimeMs: options.retryTime,
  };
}

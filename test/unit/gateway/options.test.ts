import { problemBody, problemCodes } from '@stevedore/middleware/core';
import type { OptionTable } from '@stevedore/options';
import { describe, expect, test } from 'vitest';
import { storageOptions, trackerOptions } from '../../../gateway/dist/cli/options.js';
import { parseGatewayOptions } from '../../../gateway/dist/options.js';
import { ownUrlOf } from '../../../gateway/dist/own-url.js';
import { storageSettings } from '../../../packages/storage/dist/storage-options.js';
import { tierSettings } from '../../../packages/tiering/dist/tier-options.js';
import { trackerSettings } from '../../../packages/tracker/dist/tracker-options.js';

describe('options of the gateway', () => {
  test('come from the flag, then the environment, then the file, then the table', () => {
    const file = { port: 1, host: 'file', trunkSize: '8MiB', directory: 'file' };
    const environment = {
      STEVEDORE_PORT: '2',
      STEVEDORE_HOST: 'environment',
      STEVEDORE_DIRECTORY: '',
      STEVEDORE_URL: 'http://elsewhere',
    };
    const options = parseGatewayOptions({ flags: { port: '3' }, environment, file });
    expect(options).toMatchObject({
      port: 3,
      host: 'environment',
      trunkSize: 8 * 2 ** 20,
      directory: 'file',
      storagePort: 23_000,
      trackerPort: 22_122,
      serveTrunks: false,
    });
  });

  test.each([
    [{ file: { prot: 1 } }, 'stevedore.config.json: prot is no option; did you mean port?'],
    [{ file: { xyzzyxyzzy: 1 } }, 'stevedore.config.json: xyzzyxyzzy is no option; known are host'],
    [{ file: { port: 'x' } }, 'stevedore.config.json: port: "x" is not a whole number'],
    [{ environment: { STEVEDORE_TRUNK_SIZE: '64' } }, 'STEVEDORE_TRUNK_SIZE: "64" has no unit'],
    [{ flags: { mergeMaxAge: '1 moon' } }, '--merge-max-age: "1 moon" has no known unit'],
    [{ flags: { trunkSize: '1KiB' } }, '--trunk-size: 1 KiB is less than 1 MiB'],
    [{ flags: { trunkSize: '1TiB' } }, '--trunk-size: 1 TiB is more than 2 GiB'],
    [
      { flags: { trunkSize: '2MiB' } },
      '--small-file-limit must be at most half of --trunk-size, or trunks cannot be filled',
    ],
    [
      { environment: { STEVEDORE_CONTAINER_SIZE: '8MiB' }, file: { trunkSize: '8MiB' } },
      'STEVEDORE_CONTAINER_SIZE must be at least twice stevedore.config.json: trunkSize',
    ],
    [
      { environment: { STEVEDORE_URL_SECRET: 'short' } },
      'STEVEDORE_URL_SECRET: a secret needs at least 16 bytes',
    ],
  ])('wrong ones are named as they were given: %j', (sources, message) => {
    expect(() => parseGatewayOptions(sources)).toThrow(message);
  });

  test('a size or a duration of nothing needs no unit', () => {
    const flags = { cacheSize: '0', directMaxWait: '0' };
    expect(parseGatewayOptions({ flags })).toMatchObject({ cacheSize: 0, directMaxWait: 0 });
  });
});

test('problems have a title and a status each, and server errors words of their own', () => {
  for (const code of problemCodes()) {
    const { title, status, detail } = problemBody(code, 'MESSAGE');
    expect(title).not.toBe('Error');
    expect(status).toBeGreaterThanOrEqual(400);
    // Only admins can flush, and they need to know why it failed.
    if (status >= 500 && code !== 'not_flushed') expect(detail).not.toBe('MESSAGE');
  }
});

test('flags of trackers and storages have the defaults of the daemons', () => {
  const tracker = trackerSettings({});
  const { storeLookup, storeGroup, host, port } = tracker;
  expect(defaultsOf(trackerOptions)).toMatchObject({ storeLookup, storeGroup, host, port });
  const storage = storageSettings({ storePaths: ['.'] });
  const tiers = tierSettings({}, 'group1');
  expect(defaultsOf(storageOptions)).toMatchObject({
    host: storage.host,
    port: storage.port,
    group: storage.group,
    cacheSize: storage.cacheBytes,
    cachePolicy: storage.cachePolicy,
    cacheFilter: storage.cacheFilter,
    readAhead: storage.readAheadBytes,
    durability: storage.durability,
    writeCopies: storage.writeCopies,
    metadataTier: tiers.enabled,
    metadataTierSize: tiers.roomBytes,
    shareWith: tiers.shareWith,
    smallFileThreshold: tiers.thresholdBytes,
    smallFileShare: tiers.parameters.smallFileShare * 100,
    bandwidth: tiers.bytesPerSecond,
    moveRate: tiers.movesPerSecond,
    withoutSecret: storage.access.withoutSecret,
  });
});

const defaultsOf = (table: OptionTable) =>
  Object.fromEntries(Object.entries(table).map(([name, spec]) => [name, spec.default]));

test('other gateways reach one where it listens, unless an option says where', () => {
  const about = { netmask: '', mac: '', cidr: null } as const;
  const interfaces = {
    lo: [{ ...about, address: '127.0.0.1', family: 'IPv4' as const, internal: true }],
    eth0: [
      { ...about, address: 'fe80::1', family: 'IPv6' as const, internal: false, scopeid: 2 },
      { ...about, address: '10.0.0.5', family: 'IPv4' as const, internal: false },
    ],
  };
  const urls = ['127.0.0.1', '10.0.0.7', 'fd00::7', 'files.internal', '0.0.0.0', '::'].map((host) =>
    ownUrlOf({ host, port: 8080 }, interfaces),
  );
  expect(urls).toEqual([
    '',
    'http://10.0.0.7:8080',
    'http://[fd00::7]:8080',
    'http://files.internal:8080',
    'http://10.0.0.5:8080',
    'http://10.0.0.5:8080',
  ]);
  expect(ownUrlOf({ host: '10.0.0.7', port: 0 }, interfaces)).toBe('');
  const flags = { map: 'sqlite:/map.db', host: '10.0.0.7' };
  expect(parseGatewayOptions({ flags }).peerUrl).toBe('http://10.0.0.7:8080');
  const peerUrl = 'https://files.example.com';
  expect(parseGatewayOptions({ flags: { ...flags, peerUrl } }).peerUrl).toBe(peerUrl);
  expect(parseGatewayOptions({ flags: { host: '10.0.0.7' } }).peerUrl).toBe('');
});

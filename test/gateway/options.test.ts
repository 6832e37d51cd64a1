import { problemBody, problemCodes } from '@stevedore/middleware/core';
import { describe, expect, test } from 'vitest';
import { parseGatewayOptions } from '../../gateway/dist/options.js';

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
    [{ file: { prot: 1 } }, 'there is no option "prot"'],
    [{ file: { port: 'x' } }, 'stevedore.config.json port'],
    [{ environment: { STEVEDORE_TRUNK_SIZE: '64' } }, 'environment trunkSize'],
    [{ flags: { mergeMaxAge: '1 moon' } }, 'flag mergeMaxAge'],
  ])('wrong ones are named: %j', (sources, message) => {
    expect(() => parseGatewayOptions(sources)).toThrow(message);
  });
});

describe('problems', () => {
  test('have a title and a status each, and server errors words of their own', () => {
    for (const code of problemCodes()) {
      const { title, status, detail } = problemBody(code, 'MESSAGE');
      expect(title).not.toBe('Error');
      expect(status).toBeGreaterThanOrEqual(400);
      if (status >= 500) expect(detail).not.toBe('MESSAGE');
    }
  });
});

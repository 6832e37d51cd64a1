import { FastdfsClient, FastdfsError, type FastdfsOptions } from '@stevedore/fastdfs';
import { describe, expect, it } from 'vitest';

function refused(options: FastdfsOptions): FastdfsError {
  try {
    new FastdfsClient(options);
  } catch (error) {
    expect(error).toBeInstanceOf(FastdfsError);
    return error as FastdfsError;
  }
  throw new Error(`accepted: ${JSON.stringify(options)}`);
}

describe('options', () => {
  it.each([
    ['10.0.0.1'],
    ['10.0.0.1:22122'],
    ['tracker-1.example.com'],
    ['tracker_1:1'],
    ['localhost:65535'],
    ['::1'],
    ['[::1]'],
    ['[::1]:22122'],
    ['[fe80::1%eth0]:22122'],
  ])('take the tracker %s', async (tracker) => {
    const client = new FastdfsClient({ trackers: [tracker] });
    expect(client.stats()).toMatchObject({ open: 0, idle: 0, leased: 0, queued: 0 });
    await client.close();
  });

  it.each([
    [''],
    [':22122'],
    ['host:'],
    ['host:0'],
    ['host:65536'],
    ['host:22122:1'],
    ['[::1'],
    ['[::1]22122'],
    ['[host]:22122'],
    ['http://host'],
    ['ho st'],
  ])('refuse the tracker %j', (tracker) => {
    expect(refused({ trackers: [tracker] })).toMatchObject({
      code: 'invalid_argument',
      operation: 'options',
    });
  });

  it('refuse no trackers at all', () => {
    expect(refused({ trackers: [] }).code).toBe('invalid_argument');
  });

  it('are not changed and not kept', () => {
    const options = Object.freeze({ trackers: Object.freeze(['host']) });
    expect(() => new FastdfsClient(options)).not.toThrow();
  });
});

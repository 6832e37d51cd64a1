import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe } from 'vitest';
import { clientSuite, parseLines } from '../support/interop/clients.js';
import { hasCommand, python, requirement } from '../support/requirements.js';

/**
 * The Python client py3Fdfs 2.2.0. What is left out fails inside the client, against
 * any server: a download with an offset or a length ends in an UnboundLocalError, slaves
 * and metadata in an error of packing, and the offset of `modify` is always sent as 0.
 */

const PROGRAM = join(import.meta.dirname, 'python/cases.py');

const needsPy3Fdfs = requirement('the Python package py3Fdfs', () =>
  hasCommand(python, '-c', 'import fdfs_client.client'),
);

describe.skipIf(needsPy3Fdfs.missing)('Python py3Fdfs', () => {
  clientSuite(
    async ({ host, port, slices, folder, moved }) => {
      const args = [PROGRAM, host, String(port), slices, folder, String(moved.port), moved.files];
      const { stdout } = await promisify(execFile)(python, args, { maxBuffer: 2 ** 24 });
      return parseLines(stdout);
    },
    {
      range: 'UnboundLocalError',
      info: 'no such call',
      regenerate: 'no such call',
      slave: 'packs text where bytes are needed',
      metadata: 'packs text where bytes are needed',
      merge: 'packs text where bytes are needed',
      sliceRange: 'UnboundLocalError',
      sliceInfo: 'no such call',
      movedRange: 'UnboundLocalError',
      movedInfo: 'no such call',
      movedMetadata: 'packs text where bytes are needed',
    },
  );
});

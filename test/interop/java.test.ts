import { execFile } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { describe } from 'vitest';
import { spawnSync } from '../support/child-process.js';
import { clientSuite, parseLines } from '../support/interop/clients.js';
import { hasCommand, requirement } from '../support/requirements.js';

/**
 * The Java client (io.github.rui8832:fastdfs-client-java 1.30). Its group and storage
 * lists are left out: it knows their records as they were before FastDFS 6.13.
 */

const PROJECT = join(import.meta.dirname, 'java');
const SOURCES = ['pom.xml', 'src/main/java/Cases.java'];
const CLASS = join(PROJECT, 'dist/classes/Cases.class');
const LIBRARIES = join(PROJECT, 'dist/lib');

const needsJava = requirement(
  'Java 11 with Maven',
  () =>
    hasCommand('java', '-version') && hasCommand('javac', '-version') && hasCommand('mvn', '-v'),
);

/** Once, and again when a source has changed; the repository is asked only for what is not here. */
function build(): void {
  const changed = Math.max(...SOURCES.map((name) => statSync(join(PROJECT, name)).mtimeMs));
  if (existsSync(CLASS) && existsSync(LIBRARIES) && statSync(CLASS).mtimeMs > changed) return;
  const maven = (...args: string[]) => spawnSync('mvn', ['-q', '-B', ...args], { cwd: PROJECT });
  if (maven('-o', 'clean', 'process-classes').status === 0) return;
  const { status, stdout } = maven('clean', 'process-classes');
  if (status !== 0) throw new Error(`Maven failed:\n${stdout}`);
}

describe.skipIf(needsJava.missing)('Java fastdfs-client-java', () => {
  clientSuite(async ({ host, port, slices, moved }) => {
    build();
    const classes = [join(PROJECT, 'dist/classes'), join(LIBRARIES, '*')].join(delimiter);
    const files = [slices, String(moved.port), moved.files];
    const args = ['-cp', classes, 'Cases', host, String(port), ...files];
    const { stdout } = await promisify(execFile)('java', args, { maxBuffer: 2 ** 24 });
    return parseLines(stdout);
  }, {});
});

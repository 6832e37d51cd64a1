import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../free-port.js';
import { hasCommand, requirement } from '../requirements.js';
import type { PostgresServer } from './postgres-server.js';

/** PgBouncer in transaction mode: each statement may go to another process of the server. */

export const needsPgbouncer = requirement('PgBouncer (pgbouncer)', () =>
  hasCommand('pgbouncer', '--version'),
);

/** As root it runs as `nobody`, since it refuses root. */
const owner = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};

/** The URL of a map behind it, and what ends it. */
export async function pooled(
  server: PostgresServer,
): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'stevedore-pgb-'));
  chmodSync(folder, 0o755);
  const file = join(folder, 'pgbouncer.ini');
  writeFileSync(
    file,
    `[databases]
postgres = host=127.0.0.1 port=${server.port} user=test
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
server_round_robin = 1
`,
  );
  const bouncer = spawn('pgbouncer', [file], { stdio: ['ignore', 'ignore', 'pipe'], ...owner });
  const exited = once(bouncer, 'exit');
  // It has said so once it listens.
  for await (const text of bouncer.stderr.setEncoding('utf8')) {
    if (String(text).includes('process up')) break;
  }
  return {
    url: `postgres://test@127.0.0.1:${port}/postgres`,
    async stop() {
      bouncer.kill('SIGKILL');
      await exited;
      rmSync(folder, { recursive: true });
    },
  };
}

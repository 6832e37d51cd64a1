import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { openDatabase } from '@stevedore/disk/sqlite';
import { type Finding, ok, problem, warning } from './finding.js';

/** Checks the machine: Node, file handles, ports. */

const MIN_NODE = [20, 19] as const;
const LAST_TRIED_NODE = 26;
/** Container, FileMap, trunks in progress, connections to storages. */
const OWN_HANDLES = 512;
const FULL_SHARE = 0.8;

export function judgeNode(version: string): Finding {
  const [major = 0, minor = 0] = version.replace('v', '').split('.').map(Number);
  const enough = major > MIN_NODE[0] || (major === MIN_NODE[0] && minor >= MIN_NODE[1]);
  if (major > LAST_TRIED_NODE) {
    return warning('Node', `${version} is not tried`, `${LAST_TRIED_NODE} is the last one that is`);
  }
  if (enough) return ok('Node', version);
  return problem('Node', version, `install Node ${MIN_NODE.join('.')} or later`);
}

/** Its binding is compiled for one version of Node. */
export function checkSqlite(): Finding {
  const what = 'SQLite';
  try {
    const database = openDatabase(':memory:');
    const { version } = database.prepare('SELECT sqlite_version() AS version').get() as {
      readonly version: string;
    };
    database.close();
    return ok(what, version);
  } catch (error) {
    return problem(what, (error as Error).message, 'no gateway starts without it');
  }
}

export interface HandleFacts {
  /** Infinity for no limit. */
  readonly softLimit: number;
  readonly hardLimit: number;
  /** Of the whole machine. */
  readonly inUse: number;
  readonly maximum: number;
}

/** Undefined if the system does not report it (anything but Linux). */
export async function handleFacts(): Promise<HandleFacts | undefined> {
  const limits = await readFile('/proc/self/limits', 'utf8').catch(() => undefined);
  const [, soft, hard] = /^Max open files\s+(\S+)\s+(\S+)/m.exec(limits ?? '') ?? [];
  const counts = await readFile('/proc/sys/fs/file-nr', 'utf8').catch(() => '0 0 0');
  if (soft === undefined || hard === undefined) return undefined;
  const [inUse = 0, , maximum = 0] = counts.trim().split(/\s+/).map(Number);
  return { softLimit: limit(soft), hardLimit: limit(hard), inUse, maximum };
}

export function judgeHandles(facts: HandleFacts | undefined, maxConnections: number): Finding[] {
  if (!facts) return [ok('file handles', 'this system does not say')];
  const { softLimit, hardLimit, inUse, maximum } = facts;
  const needed = maxConnections + OWN_HANDLES;
  const detail = `this user's processes may open ${softLimit} files`;
  const findings: Finding[] = [
    softLimit >= needed
      ? ok('file handles', detail)
      : warning(
          'file handles',
          `${detail}; ${maxConnections} connections need ${needed}`,
          hardLimit >= needed
            ? `start the gateway with \`ulimit -n ${Math.min(hardLimit, 65_536)}\`, or LimitNOFILE= of its systemd unit`
            : `only root can raise it beyond ${hardLimit}: LimitNOFILE= of the systemd unit, or nofile in /etc/security/limits.conf, ${needed} at least`,
        ),
  ];
  if (maximum > 0 && inUse > maximum * FULL_SHARE) {
    findings.push(
      warning(
        'file handles of the machine',
        `${inUse} of ${maximum} are in use`,
        'raise fs.file-max',
      ),
    );
  }
  return findings;
}

/** The code of the error when listening there; undefined if the port is free. */
export function tryPort(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? 'unknown'));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}

export function judgePort(
  what: string,
  address: string,
  error: string | undefined,
  ours: boolean,
): Finding {
  if (error === undefined) return ok(what, `${address} is free`);
  if (error === 'EADDRINUSE' && ours) return ok(what, `${address} is in use by a running gateway`);
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: 'is in use by another program',
    EADDRNOTAVAIL: 'is no address of this machine',
    EACCES: 'may not be used by this user',
  };
  const advice: Readonly<Record<string, string>> = {
    EADDRNOTAVAIL: 'set host to one that is, or to 0.0.0.0 for all of them',
    EACCES: 'take a port from 1024 on, and a proxy in front',
  };
  return problem(
    what,
    `${address} ${reasons[error] ?? `cannot be used (${error})`}`,
    advice[error] ?? `stop what runs there, or choose another: --${what.replace(' ', '-')}`,
  );
}

/** True if a Stevedore gateway answers there. */
export async function isGateway(url: string): Promise<boolean> {
  try {
    const answer = await fetch(`${url}/health/live`, { signal: AbortSignal.timeout(2_000) });
    return ((await answer.json()) as { live?: unknown }).live === true;
  } catch {
    return false;
  }
}

function limit(text: string): number {
  return text === 'unlimited' ? Number.POSITIVE_INFINITY : Number(text);
}

import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/**
 * CPU of processes, user and system time: of this one, and, on Linux, of others from /proc.
 * Undefined where the system does not say.
 */

/** Clock ticks a second in /proc. */
const TICKS = 100;
const LISTENING = '0A';

/** Of this process so far, in seconds, all threads. */
export function cpuUsed(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

/** Undefined where that cannot be read. */
function known<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

export function cpuSecondsOf(pids: readonly number[]): number | undefined {
  const sum = () => pids.reduce((all, pid) => all + secondsIn(`/proc/${pid}/stat`), 0);
  return pids.length === 0 ? undefined : known(sum);
}

/** A process and those that it started and that still run. */
export function familyOf(pid: number): readonly number[] {
  const children = known(() => readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1'));
  return children === undefined ? [] : [pid, ...children.split(' ').filter(Boolean).map(Number)];
}

/** Main: the event loop. V8: its compiler and garbage collector. Pool: the disk, and other threads. */
export const THREADS = ['main', 'v8', 'pool'] as const;
export type ThreadCpu = Readonly<Record<(typeof THREADS)[number], number>>;

/**
 * Of the threads of a Node. Where they have no names of their own, their order tells: those that
 * run V8's work are started first (a scheduler, four workers), the one for the inspector next, those
 * of the pool when they are needed.
 */
export function threadSecondsOf(pid: number): ThreadCpu | undefined {
  return known(() => {
    const sums = { main: 0, v8: 0, pool: 0 };
    const threads = readdirSync(`/proc/${pid}/task`).map(Number);
    for (const [order, thread] of threads.sort((a, b) => a - b).entries()) {
      const path = `/proc/${pid}/task/${thread}`;
      const kind = thread === pid ? 'main' : kindOf(readFileSync(`${path}/comm`, 'latin1'), order);
      sums[kind] += secondsIn(`${path}/stat`);
    }
    return sums;
  });
}

const V8_THREADS = 6;

function kindOf(name: string, order: number): 'v8' | 'pool' {
  if (/v8|delayed|inspector/i.test(name)) return 'v8';
  if (/libuv/i.test(name)) return 'pool';
  return order <= V8_THREADS ? 'v8' : 'pool';
}

function secondsIn(path: string): number {
  const stat = readFileSync(path, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(') ') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

/** Bytes that a process reads: from files and sockets (`rchar`), or from the disk. */
export function ioOf(pid: number | 'self', name: 'rchar' | 'read_bytes'): number | undefined {
  const io = known(() => readFileSync(`/proc/${pid}/io`, 'latin1'));
  const found = new RegExp(`^${name}: (\\d+)$`, 'm').exec(io ?? '');
  return found ? Number(found[1]) : undefined;
}

/** The processes that have the listening socket, so that workers count. */
export function listenersOf(host: string, port: number): readonly number[] {
  if (!['127.0.0.1', 'localhost', '[::1]'].includes(host)) return [];
  const inodes = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((path) => inodesIn(path, port));
  const sockets = new Set(inodes.map((inode) => `socket:[${inode}]`));
  const hasOne = (fd: string) => sockets.has(readlinkSync(fd));
  // False too for a process of another user.
  const listens = (pid: string) =>
    known(() => readdirSync(`/proc/${pid}/fd`).some((fd) => hasOne(`/proc/${pid}/fd/${fd}`)));
  const pids = (known(() => readdirSync('/proc')) ?? []).filter((name) => /^\d+$/.test(name));
  return pids.filter(listens).map(Number);
}

function inodesIn(path: string, port: number): string[] {
  const wanted = port.toString(16).toUpperCase().padStart(4, '0');
  const lines = known(() => readFileSync(path, 'latin1').trim().split('\n').slice(1)) ?? [];
  return lines
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local, , state]) => local?.endsWith(`:${wanted}`) && state === LISTENING)
    .map((fields) => fields[9] ?? '');
}

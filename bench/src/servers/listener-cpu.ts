import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/**
 * CPU of the processes that listen on a port of this machine, read from /proc: all that have
 * the listening socket, so that workers count. Undefined if the system does not say.
 */

/** Clock ticks a second in /proc. */
const TICKS = 100;
const LISTENING = '0A';

export function listenersOf(host: string, port: number): readonly number[] {
  if (!['127.0.0.1', 'localhost', '[::1]'].includes(host)) return [];
  try {
    const inodes = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((path) => inodesIn(path, port));
    const sockets = new Set(inodes.map((inode) => `socket:[${inode}]`));
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    return pids.filter((pid) => hasOne(pid, sockets)).map(Number);
  } catch {
    return [];
  }
}

export function cpuSecondsOf(pids: readonly number[]): number | undefined {
  if (pids.length === 0) return undefined;
  const ticks = pids.map((pid) => {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(') ') + 2).split(' ');
    return Number(fields[11]) + Number(fields[12]);
  });
  return ticks.reduce((sum, each) => sum + each, 0) / TICKS;
}

function inodesIn(path: string, port: number): string[] {
  const wanted = port.toString(16).toUpperCase().padStart(4, '0');
  const lines = readFileSync(path, 'latin1').trim().split('\n').slice(1);
  return lines
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local, , state]) => local?.endsWith(`:${wanted}`) && state === LISTENING)
    .map((fields) => fields[9]!);
}

/** False too for a process of another user. */
function hasOne(pid: string, sockets: ReadonlySet<string>): boolean {
  try {
    const names = readdirSync(`/proc/${pid}/fd`);
    return names.some((name) => sockets.has(readlinkSync(`/proc/${pid}/fd/${name}`)));
  } catch {
    return false;
  }
}

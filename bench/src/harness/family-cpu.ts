import { readFileSync } from 'node:fs';
import { cpuSecondsOf } from '../servers/listener-cpu.js';

/** CPU of a process and of those that it started and that still run, read from /proc. */
export function familyCpuSeconds(pid: number): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1');
  const pids = children.split(' ').filter(Boolean).map(Number);
  return cpuSecondsOf([pid, ...pids])!;
}

import { type ForwardReport, type ForwardTarget, Status, StorageStatus } from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import type { Cluster } from './cluster.js';
import type { Member } from './member.js';

/**
 * Files whose reads another group's storage answers, as their homes tell. It is a hint: a
 * storage that is asked for what it does not answer for finds out who does. So what is
 * here may be late or lack something; what does not fit is not taken down, and what a
 * storage told goes with the connection on which it told it.
 *
 * A forward counts only where the tracker would have named that very home otherwise: all
 * that is true of who may be read (who is out, who is in charge of an appender, who is
 * away) is decided before and stays as it is.
 */

/** Files of one storage, and of all. Some 250 bytes each. */
export const MAX_FORWARDS_PER_STORAGE = 16_384;
const MAX_FORWARDS = 131_072;
/** More than there are metadata servers. */
const MAX_TARGETS = 4096;

interface Home {
  /** Stands for the connection that has told. */
  readonly link: object;
  readonly files: Map<string, ForwardTarget>;
}

export class Forwards {
  readonly #cluster: Cluster;
  readonly #homes = new Map<string, Home>();
  /** One object for each target, however many files have it. */
  readonly #targets = new Map<string, ForwardTarget>();
  #count = 0;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** Files that are forwarded. */
  get count(): number {
    return this.#count;
  }

  /**
   * Takes the report of the storage at this address; status 13 if it is no member, 16 for a
   * report that goes on from one that another connection has begun.
   */
  report(report: ForwardReport, address: string, link: object): void {
    const member = this.#cluster.member(report.group, report.id);
    if (member.address !== address || member.port !== report.port) {
      throw new StatusError(Status.accessDenied, `${address} is not storage ${report.id}`);
    }
    const key = keyOf(report);
    if (report.begins) {
      this.#forget(key);
      this.#homes.set(key, { link, files: new Map() });
    }
    const home = this.#homes.get(key);
    if (home?.link !== link) throw new StatusError(Status.busy, 'the report has no beginning');
    for (const { name, target } of report.forwards) {
      if (home.files.delete(name)) this.#count -= 1;
      if (!target || this.#count >= MAX_FORWARDS) continue;
      if (home.files.size >= MAX_FORWARDS_PER_STORAGE) continue;
      home.files.set(name, this.#shared(target));
      this.#count += 1;
    }
  }

  /** The connection has ended. */
  leave(link: object): void {
    for (const [key, home] of this.#homes) if (home.link === link) this.#forget(key);
  }

  /** The storage that answers for the file in the place of this member; undefined: itself. */
  find(group: string, member: Member, name: string, nowMs: number): Member | undefined {
    if (this.#count === 0) return undefined;
    const target = this.#homes.get(keyOf({ group, id: member.id }))?.files.get(name);
    if (!target || target.group === group) return undefined;
    const other = this.#cluster.groups.find((each) => each.name === target.group);
    const found = other?.find(target.id);
    if (!other || !found) return undefined;
    return other.statusOf(found, nowMs) === StorageStatus.active ? found : undefined;
  }

  #shared(target: ForwardTarget): ForwardTarget {
    const key = keyOf(target);
    const known = this.#targets.get(key);
    if (known) return known;
    if (this.#targets.size >= MAX_TARGETS) this.#targets.clear();
    this.#targets.set(key, target);
    return target;
  }

  #forget(key: string): void {
    this.#count -= this.#homes.get(key)?.files.size ?? 0;
    this.#homes.delete(key);
    if (this.#count === 0) this.#targets.clear();
  }
}

function keyOf({ group, id }: ForwardTarget): string {
  return `${group}/${id}`;
}

import { randomBytes } from 'node:crypto';
import { Status } from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import type { GuestHosts, HomeId } from './guest-hosts.js';
import { GUEST_NUMBER_BYTES, guestName, parsePlace, placeText } from './guest-name.js';
import type { Leases } from './leases.js';

/**
 * The bytes of this storage's small files that other metadata servers hold, for the
 * tiers: places are the text that records have of them.
 */

export interface GuestsParts {
  readonly hosts: Pick<GuestHosts, 'store' | 'read' | 'remove'>;
  /** This storage; undefined until a tracker has told. */
  readonly self: () => HomeId | undefined;
  /** Which others answer for files of this storage; undefined: nobody ever does. */
  readonly leases?: Pick<Leases, 'takeBack' | 'offer'>;
}

export class Guests {
  readonly #parts: GuestsParts;
  /** Places that a move is about to fill. */
  readonly #arriving = new Set<string>();

  constructor(parts: GuestsParts) {
    this.#parts = parts;
  }

  /** A place at the target that nothing has had; until `settled` nobody cleans it up. */
  newPlace(name: string, target: HomeId): string {
    const number = randomBytes(GUEST_NUMBER_BYTES);
    const place = placeText({ ...target, name: guestName(name, number) });
    this.#arriving.add(place);
    return place;
  }

  settled(place: string): void {
    this.#arriving.delete(place);
  }

  isArriving(place: string): boolean {
    return this.#arriving.has(place);
  }

  /** StatusError where the target does not want it. */
  async store(place: string, bytes: Buffer, loadBytes: number): Promise<void> {
    const home = this.#parts.self();
    if (!home) throw new StatusError(Status.tryAgain, 'no tracker has told who this is');
    await this.#parts.hosts.store(parsePlace(place), home, bytes, loadBytes);
  }

  /** The file at the path is where its record says by now. */
  offer(path: string): void {
    this.#parts.leases?.offer(path);
  }

  /**
   * Resolves once this storage alone answers for the file at the path, until the function
   * that it gives is called. `placeOf`: the place that its record has, if it has one.
   */
  async takeBack(path: string, placeOf: () => string | undefined): Promise<() => void> {
    const { leases } = this.#parts;
    if (!leases) return () => {};
    return leases.takeBack(path, () => {
      const place = placeOf();
      return place === undefined ? undefined : parsePlace(place);
    });
  }

  read(place: string, size: number, checksum: number): Promise<Buffer> {
    return this.#parts.hosts.read(parsePlace(place), size, checksum);
  }

  remove(place: string): Promise<void> {
    return this.#parts.hosts.remove(parsePlace(place));
  }
}

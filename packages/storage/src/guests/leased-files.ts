import {
  type LeasedFile,
  type LeaseReply,
  type LeaseRequest,
  NORMAL_NAME_CHARS,
  PATH_CHARS,
} from '@stevedore/protocol';
import { isGuestBase } from './guest-name.js';

/**
 * The files of other groups that this storage answers for, because it has their bytes and
 * their homes let it. In memory, and worth nothing without a lease that runs: a home
 * prolongs it again and again, and changes such a file only when this storage has forgotten
 * it or the lease has run out. So what is answered while it runs, the home could have
 * answered at that moment.
 *
 * The clock of a lease is this storage's own: a reply says what time it is here, and the
 * lease that the next request brings counts from then, not from when that request arrives.
 * A request that was on its way for long therefore gives nothing that its sender has
 * stopped waiting for. A session begins with such a clock as well, one that was given out
 * last, so a request of a storage that is gone cannot take the place of its successor.
 */

/** Files of all homes, some 600 bytes each, and the bytes of their metadata. */
const MAX_LEASED_FILES = 65_536;
const MAX_LEASED_METADATA = 32 * 1024 * 1024;
const MAX_HOMES = 1024;
/** A clock begins anywhere below this, in microseconds: another process, another time. */
const CLOCK_ORIGINS = 2 ** 51;

interface Home {
  readonly group: string;
  session: string | undefined;
  /** What the next session has to begin with; undefined: nobody has asked. */
  challenge: number | undefined;
  untilMs: number;
  readonly files: Map<string, LeasedFile>;
}

export class LeasedFiles {
  readonly #nowMs: () => number;
  readonly #origin: number;
  readonly #homes = new Map<string, Home>();
  #lastClock = 0;
  #count = 0;
  #metadataBytes = 0;

  /** `nowMs` never goes back; `random` gives a number from 0 to below 1. */
  constructor(nowMs: () => number, random: () => number) {
    this.#nowMs = nowMs;
    this.#origin = Math.floor(random() * CLOCK_ORIGINS);
  }

  /** Files that are answered for as long as their lease runs. */
  get count(): number {
    return this.#count;
  }

  take(request: LeaseRequest): LeaseReply {
    const home = this.#homeOf(request);
    if (!home) return { isKnown: false, clock: this.#clock(), refused: [] };
    if (home.session !== request.session) {
      if (home.challenge === undefined || home.challenge !== request.echo) {
        home.challenge = this.#clock();
        return { isKnown: false, clock: home.challenge, refused: [] };
      }
      this.#clear(home);
      home.session = request.session;
      home.untilMs = 0;
    }
    home.challenge = undefined;
    for (const name of request.revoked) this.#remove(home, name);
    const refused = request.granted.flatMap((file, place) =>
      this.#add(home, file) ? [] : [place],
    );
    // What was never said here proves nothing.
    if (request.echo >= this.#origin && request.echo <= this.#lastClock) {
      const fromMs = (request.echo - this.#origin) / 1000;
      home.untilMs = Math.max(home.untilMs, fromMs + request.leaseMs);
    }
    return { isKnown: true, clock: this.#clock(), refused };
  }

  /** What may be answered for now; undefined: that is its home's. */
  find(group: string, name: string): LeasedFile | undefined {
    if (this.#count === 0) return undefined;
    const nowMs = this.#nowMs();
    let found: LeasedFile | undefined;
    for (const home of this.#homes.values()) {
      const file = home.group === group ? home.files.get(name) : undefined;
      if (!file || nowMs >= home.untilMs) continue;
      // Two homes of one file: who of them is right, this storage cannot know.
      if (found) return undefined;
      found = file;
    }
    return found;
  }

  #homeOf({ homeGroup, homeId }: LeaseRequest): Home | undefined {
    const key = `${homeGroup}/${homeId}`;
    const known = this.#homes.get(key);
    if (known) return known;
    if (this.#homes.size >= MAX_HOMES && !this.#dropIdle()) return undefined;
    const home: Home = {
      group: homeGroup,
      session: undefined,
      challenge: undefined,
      untilMs: 0,
      files: new Map(),
    };
    this.#homes.set(key, home);
    return home;
  }

  /** Forgets a home whose lease has run out. */
  #dropIdle(): boolean {
    const nowMs = this.#nowMs();
    for (const [key, home] of this.#homes) {
      if (nowMs < home.untilMs) continue;
      this.#clear(home);
      this.#homes.delete(key);
      return true;
    }
    return false;
  }

  #add(home: Home, file: LeasedFile): boolean {
    this.#remove(home, file.name);
    const bytes = file.metadata?.length ?? 0;
    const isGuest = file.guest.startsWith('M00/') && isGuestBase(file.guest.slice(PATH_CHARS));
    if (!isGuest || file.name.length < NORMAL_NAME_CHARS) return false;
    if (this.#count >= MAX_LEASED_FILES) return false;
    if (this.#metadataBytes + bytes > MAX_LEASED_METADATA) return false;
    home.files.set(file.name, file);
    this.#count += 1;
    this.#metadataBytes += bytes;
    return true;
  }

  #remove(home: Home, name: string): void {
    const file = home.files.get(name);
    if (!file) return;
    home.files.delete(name);
    this.#count -= 1;
    this.#metadataBytes -= file.metadata?.length ?? 0;
  }

  #clear(home: Home): void {
    for (const name of [...home.files.keys()]) this.#remove(home, name);
  }

  /** Microseconds; each is given once, and none again by another process of this storage. */
  #clock(): number {
    const now = this.#origin + Math.floor(this.#nowMs() * 1000);
    this.#lastClock = Math.max(this.#lastClock + 1, now);
    return this.#lastClock;
  }
}

import type { LeaseReply } from '@stevedore/protocol';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  LEASE_MS,
  SAFE_MS,
  type SessionRequest,
} from '../../packages/storage/dist/guests/lease-line.js';
import { LeasedFiles } from '../../packages/storage/dist/guests/leased-files.js';
import { Leases, type LentFile } from '../../packages/storage/dist/guests/leases.js';
import { Random } from '../support/random.js';

/** A home and a storage that answers for its files, with time and the way between them held. */

const AT = { group: 'group2', id: '10.0.0.2' };
const HOME = { homeGroup: 'group1', homeId: '10.0.0.1' };
const baseOf = (letter: string): string => `M00/00/00/${letter.repeat(27)}`;
const nameOf = (path: string): string => `${baseOf(path)}123.txt`;
const guestOf = (path: string): string => `${baseOf(path)}g0123456789ab.moved`;

/** Files of a home: what each is now, and whether the other storage has its bytes. */
class Home {
  readonly versions = new Map<string, number>();
  readonly forwards = new Map<string, unknown>();
  leases: Leases;
  #generation = 0;
  readonly #send: (request: SessionRequest) => Promise<LeaseReply>;
  readonly #random: Random;

  constructor(send: (request: SessionRequest) => Promise<LeaseReply>, random: Random) {
    this.#send = send;
    this.#random = random;
    this.leases = this.#begin();
  }

  /** As if the process had been killed: what is on its disk stays. */
  restart(): void {
    this.forwards.clear();
    this.leases = this.#begin();
  }

  /** A change that is answered when this resolves. */
  async change(path: string): Promise<void> {
    const { leases } = this;
    const release = await leases.takeBack(path, () => AT);
    if (leases !== this.leases) return;
    this.versions.set(path, this.versions.get(path)! + 1);
    release();
  }

  #begin(): Leases {
    let session = 0;
    this.#generation += 1;
    const generation = this.#generation;
    const process = this.#random.below(2 ** 30);
    return new Leases({
      // A process that is gone sends nothing; what it has sent is on its way.
      send: (_to, request) =>
        generation === this.#generation ? this.#send(request) : new Promise(() => {}),
      describe: (path): LentFile | undefined => {
        const version = this.versions.get(path);
        if (version === undefined) return undefined;
        const file = {
          name: nameOf(path),
          guest: guestOf(path),
          size: 1,
          mtimeSeconds: version,
          crc32: 0,
          sourceAddress: '',
          metadata: undefined,
        };
        return { at: AT, file };
      },
      earlier: () => [...this.versions.keys()],
      onForward: (name, target) => {
        if (target) this.forwards.set(name, target);
        else this.forwards.delete(name);
      },
      nowMs: () => performance.now(),
      newSession: () => {
        session += 1;
        return `${process.toString(16)}${session.toString(16)}`.padStart(16, '0');
      },
    });
  }
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function others(random: Random): LeasedFiles {
  return new LeasedFiles(
    () => performance.now(),
    () => random.below(1000) / 1000,
  );
}

/** Lets what is under way go on, and time with it. */
const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

function pair(files: string) {
  const random = new Random(1);
  const other = { files: others(random) };
  const way = { isCut: false, requests: 0 };
  const home = new Home(async (request) => {
    way.requests += 1;
    if (way.isCut) throw new Error('cut');
    return other.files.take({ ...HOME, ...request });
  }, random);
  for (const path of files) home.versions.set(path, 1);
  return { home, other, way, random };
}

describe('a lease', () => {
  it('is granted, prolonged, and over soon after the home is silent', async () => {
    const { home, other } = pair('a');
    home.leases.prolong();
    await pass(1);
    expect(other.files.find('group1', nameOf('a'))).toMatchObject({ mtimeSeconds: 1 });
    expect(other.files.find('group2', nameOf('a'))).toBeUndefined();
    expect(home.forwards.get(nameOf('a'))).toEqual(AT);
    for (let n = 0; n < 10; n += 1) {
      await pass(LEASE_MS / 4);
      expect(other.files.find('group1', nameOf('a'))).toBeDefined();
      home.leases.prolong();
    }
    await pass(LEASE_MS);
    expect(other.files.find('group1', nameOf('a'))).toBeUndefined();
    home.leases.prolong();
    await pass(1);
    home.leases.prolong();
    await pass(1);
    expect(other.files.find('group1', nameOf('a'))).toBeDefined();
  });

  it('is taken back before a change, at once where the other end answers', async () => {
    const { home, other } = pair('ab');
    home.leases.prolong();
    await pass(1);
    const release = await home.leases.takeBack('a', () => AT);
    expect(other.files.find('group1', nameOf('a'))).toBeUndefined();
    expect(other.files.find('group1', nameOf('b'))).toBeDefined();
    expect(home.forwards.has(nameOf('a'))).toBe(false);
    // Not while it is being changed.
    home.leases.prolong();
    await pass(1);
    expect(other.files.find('group1', nameOf('a'))).toBeUndefined();
    home.versions.set('a', 2);
    release();
    home.leases.prolong();
    await pass(1);
    expect(other.files.find('group1', nameOf('a'))).toMatchObject({ mtimeSeconds: 2 });
  });

  it('holds a change up no longer than it runs where the other end is silent', async () => {
    const { home, other, way } = pair('ab');
    home.leases.prolong();
    await pass(1);
    way.isCut = true;
    let isDone = false;
    void home.change('a').then(() => {
      isDone = true;
    });
    await pass(LEASE_MS - 10);
    expect(isDone).toBe(false);
    expect(other.files.find('group1', nameOf('a'))).toBeDefined();
    await pass(SAFE_MS - LEASE_MS + 20);
    expect(isDone).toBe(true);
    expect(other.files.find('group1', nameOf('b'))).toBeUndefined();
    // After that nothing waits for a server that is away.
    await home.change('b');
    // What it had counts no more when it is back, and is granted again as it is now.
    way.isCut = false;
    home.leases.prolong();
    await pass(1);
    expect(other.files.find('group1', nameOf('a'))).toMatchObject({ mtimeSeconds: 2 });
    expect(other.files.find('group1', nameOf('b'))).toMatchObject({ mtimeSeconds: 2 });
  });

  it('of a process that is gone is waited for by the next one, or ended by it', async () => {
    const { home, other, way } = pair('ab');
    home.leases.prolong();
    await pass(1);
    home.restart();
    way.isCut = true;
    let isDone = false;
    void home.change('a').then(() => {
      isDone = true;
    });
    await pass(LEASE_MS / 2);
    expect(isDone).toBe(false);
    way.isCut = false;
    home.leases.prolong();
    await pass(1);
    expect(isDone).toBe(true);
    expect(other.files.find('group1', nameOf('a'))).toBeUndefined();
  });

  it('is worth nothing to a storage that has begun anew', async () => {
    const { home, other, random } = pair('a');
    home.leases.prolong();
    await pass(1);
    other.files = others(random);
    expect(other.files.find('group1', nameOf('a'))).toBeUndefined();
    home.leases.prolong();
    await pass(1);
    expect(other.files.find('group1', nameOf('a'))).toBeDefined();
  });

  it('is refused for what is no guest, and for a file that two members claim', async () => {
    const random = new Random(2);
    const files = others(random);
    const file = {
      name: nameOf('a'),
      guest: guestOf('a'),
      size: 1,
      mtimeSeconds: 1,
      crc32: 0,
      sourceAddress: '',
      metadata: undefined,
    };
    const begin = (homeId: string) => {
      const request = {
        ...HOME,
        homeId,
        session: '0123456789abcdef',
        leaseMs: LEASE_MS,
        revoked: [],
        granted: [file, { ...file, name: nameOf('b'), guest: nameOf('b') }],
      };
      const { clock, isKnown } = files.take({ ...request, echo: 0 });
      expect(isKnown).toBe(false);
      return files.take({ ...request, echo: clock });
    };
    expect(begin('1')).toMatchObject({ isKnown: true, refused: [1] });
    expect(files.find('group1', nameOf('a'))).toBeDefined();
    begin('2');
    expect(files.find('group1', nameOf('a'))).toBeUndefined();
  });
});

describe('whatever happens on the way', () => {
  /**
   * Requests arrive late, long after their sender has given up, or never; so do replies.
   * Either end begins anew. What the other storage answers is what the home would.
   */
  it.each(Array.from({ length: 40 }, (_, seed) => seed))(
    'nobody is given what was changed before (seed %i)',
    async (seed) => {
      const random = new Random(seed);
      const paths = ['a', 'b', 'c'];
      const other = { files: others(random) };
      const late: (() => void)[] = [];
      /** For a while nothing arrives in time. */
      let isCut = false;
      const home = new Home((request) => {
        const { files } = other;
        const sent = { ...HOME, ...request };
        return new Promise((resolve, reject) => {
          const arrive = (): void => {
            // A process that has ended takes nothing.
            if (files !== other.files) {
              reject(new Error('gone'));
              return;
            }
            const reply = files.take(sent);
            if (random.below(10) === 0) reject(new Error('the reply is lost'));
            else setTimeout(() => resolve(reply), random.below(40));
          };
          switch (isCut ? random.below(2) : random.below(6)) {
            case 0:
              late.push(arrive);
              setTimeout(() => reject(new Error('no answer in time')), random.below(3000));
              break;
            case 1:
              reject(new Error('refused'));
              break;
            default:
              setTimeout(arrive, random.below(60));
          }
        });
      }, random);
      for (const path of paths) home.versions.set(path, 1);
      let answered = 0;
      let changes = 0;
      for (let step = 0; step < 1500; step += 1) {
        const path = random.pick(paths);
        switch (random.below(12)) {
          case 0:
          case 1:
            changes += 1;
            void home.change(path);
            break;
          case 2:
          case 3:
            home.leases.prolong();
            break;
          case 4:
            // What was forgotten arrives, whatever has happened since.
            if (late.length > 0) late.splice(random.below(late.length), 1)[0]!();
            break;
          case 5:
            if (random.below(8) === 0) isCut = !isCut;
            if (random.below(20) === 0) home.restart();
            if (random.below(20) === 0) other.files = others(random);
            break;
          default:
            await pass(random.below(120));
        }
        for (const each of paths) {
          const known = other.files.find('group1', nameOf(each));
          if (!known) continue;
          answered += 1;
          expect(known.mtimeSeconds, `step ${step}`).toBe(home.versions.get(each));
        }
      }
      expect(changes).toBeGreaterThan(100);
      expect(answered).toBeGreaterThan(50);
    },
  );
});

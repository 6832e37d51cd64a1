import { mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { GrowingPause } from '@stevedore/async';
import { type DeploymentMap, type Gateway, MapError, RETURN_MS } from '@stevedore/map';
import {
  aboutOf,
  DirectoryLock,
  type FileRow,
  isStoreError,
  ReturnedFiles,
} from '@stevedore/staging';
import type { Deployment } from '../deployment/deployment.js';
import { Publisher } from '../deployment/publisher.js';
import type { FilesElsewhere } from '../holders/files-elsewhere.js';

/**
 * The directory of a server that was adopted while it was away joins again as a new one, and gives its
 * adopter what only this disk has:
 *
 * 1. Before the store is opened, all that belongs to the old origin moves to `returned/ORIGIN`. That
 *    folder is made first and the file `origin` moves last: while both are there, the next start goes
 *    on. Then the directory has no origin, and the map gives it a new one.
 * 2. The map hears of the trunks and deletions that it had not heard of, and has the adopter look again.
 * 3. The adopter gets each file that waits here. It stages those that neither it nor the map knows: the
 *    map keeps the removals of an adopted origin for longer than a directory may come back.
 * 4. The folder is removed. Until then, every start begins again with step 2; nothing happens twice.
 */

const FOLDER = 'returned';
/** All that belongs to one origin. */
const PARTS = [
  ...['container', 'spool', 'unfinished'],
  ...['filemap.sqlite', 'filemap.sqlite-wal', 'filemap.sqlite-shm', 'instance'],
];
/** Trunks or deletions were published that the adopter may not know. */
const UNHEARD = 'unheard';
/** Behind the name of a folder that is not needed any more. */
const DONE = '.done';
/** The adopter syncs them together. */
const GIVEN_AT_ONCE = 32;
const RETRIES = { firstMs: 500, lastMs: 60_000 };

/** Step 1, if the map says that the files of this directory were adopted. */
export async function setAside(directory: string, map: DeploymentMap): Promise<void> {
  const text = await readIfThere(join(directory, 'origin'));
  if (text === undefined) return;
  await DirectoryLock.awaitOwner(directory, 'filemap.sqlite');
  const lock = DirectoryLock.acquire(directory);
  try {
    const origin = Number(text);
    const folder = join(directory, FOLDER, String(origin));
    const instance = await readIfThere(join(directory, 'instance'));
    const isBegun = await stat(folder).then(
      () => true,
      () => false,
    );
    if (!isBegun && !(await mayReturn(map, origin, instance))) return;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await syncAll(directory, join(directory, FOLDER));
    for (const part of PARTS) await move(part, directory, folder);
    await syncAll(directory, folder);
    await move('origin', directory, folder);
    await syncAll(directory, folder);
  } finally {
    lock.release();
  }
}

async function mayReturn(
  map: DeploymentMap,
  origin: number,
  instance: string | undefined,
): Promise<boolean> {
  try {
    await map.prepare();
    const own = (await map.gateways()).find((each) => each.origin === origin);
    if (!own?.adoption || own.instance !== instance) return false;
    return !isTooLate(own, await map.now());
  } catch (error) {
    // It starts as before; once the map answers, it is refused, and the next start comes here.
    if (error instanceof MapError && error.retryable) return false;
    throw error;
  }
}

function isTooLate({ adoption }: Gateway, now: number): boolean {
  return adoption?.doneAt !== undefined && now - adoption.doneAt >= RETURN_MS;
}

async function move(part: string, from: string, to: string): Promise<void> {
  await rename(join(from, part), join(to, part)).catch(unlessGone);
}

async function syncAll(...folders: readonly string[]): Promise<void> {
  for (const folder of folders) {
    const handle = await open(folder);
    await handle.sync().finally(() => handle.close());
  }
}

async function readIfThere(path: string): Promise<string | undefined> {
  return (await readFile(path, 'utf8').catch(unlessGone))?.trim();
}

function unlessGone(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}

export interface ReturnsParts {
  readonly directory: string;
  readonly deployment: Deployment;
  readonly map: DeploymentMap;
  readonly elsewhere: FilesElsewhere;
  readonly report: (error: Error) => void;
  readonly now: () => number;
}

/** Steps 2 to 4, in the background. */
export class Returns {
  readonly #parts: ReturnsParts;
  readonly #stopped = new AbortController();
  #running: Promise<unknown> = Promise.resolve();

  constructor(parts: ReturnsParts) {
    this.#parts = parts;
  }

  async start(): Promise<void> {
    const folder = join(this.#parts.directory, FOLDER);
    const names = (await readdir(folder).catch(unlessGone)) ?? [];
    const done = names.filter((name) => name.endsWith(DONE));
    for (const name of done) await rm(join(folder, name), { recursive: true });
    const origins = names.filter((name) => !name.endsWith(DONE)).map(Number);
    this.#running = Promise.all(origins.map((origin) => this.#bringBack(origin)));
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#running;
  }

  /** Never rejects: what fails is tried again. */
  async #bringBack(origin: number): Promise<void> {
    const { report, deployment, directory } = this.#parts;
    const { signal } = this.#stopped;
    const pause = new GrowingPause(RETRIES);
    // Somebody listens to the store once it is open.
    await nextTurn();
    report(
      new MapError(
        'adoption',
        `origin ${origin} was adopted while ${directory} was away: it has origin ${deployment.origin} now, and gives the adopter what only its disk has`,
      ),
    );
    for (let said = ''; !signal.aborted; ) {
      try {
        const done = await this.#attempt(origin);
        if (done !== undefined) return report(new MapError('adoption', done));
        pause.reset();
      } catch (error) {
        const { message } = error as Error;
        if (signal.aborted) return;
        if (message !== said)
          report(new MapError('adoption', `origin ${origin} is not back yet: ${message}`));
        said = message;
      }
      await sleep(pause.next(), undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  /** What came back; undefined: look again. */
  async #attempt(origin: number): Promise<string | undefined> {
    const { directory, deployment, map, report, now } = this.#parts;
    const folder = join(directory, FOLDER, String(origin));
    const gateways = await deployment.gateways();
    const own = gateways.find((each) => each.origin === origin);
    if (!own?.adoption) throw new Error(`the map knows of no adoption; its files are in ${folder}`);
    if (isTooLate(own, deployment.mapNow())) {
      throw new Error(`that was more than 30 days ago; its files are in ${folder}`);
    }
    if (!own.adoption.isDone) return undefined;
    const files = await ReturnedFiles.open(folder, now(), report);
    let given: Promise<void>[] = [];
    try {
      const unheard = join(folder, UNHEARD);
      if ((files.outbox?.pending ?? 0) > 0) {
        await writeFile(unheard, '', { flush: true });
        await this.#publish(files);
      }
      if ((await readIfThere(unheard)) !== undefined) {
        await map.reopenAdoption(origin);
        await rm(unheard);
        return undefined;
      }
      const adopter = gateways.find((each) => each.origin === own.adoption?.by);
      let [all, taken, damaged] = [0, 0, 0];
      const give = async (row: FileRow) => {
        all += 1;
        try {
          const isTaken = await this.#give(adopter, row, files);
          if (isTaken) taken += 1;
        } catch (error) {
          if (!isStoreError(error, 'corrupt')) throw error;
          report(error as Error);
          damaged += 1;
        }
      };
      for (const row of files.waiting()) {
        this.#stopped.signal.throwIfAborted();
        given.push(give(row));
        if (given.length < GIVEN_AT_ONCE) continue;
        await Promise.all(given);
        given = [];
      }
      await Promise.all(given);
      const rest = damaged > 0 ? `, ${damaged} are damaged` : '';
      const done = `origin ${origin} is back: of ${all} staged files, its adopter, origin ${own.adoption.by}, lacked ${taken} and has them now${rest}`;
      await files.close();
      await rename(folder, `${folder}${DONE}`);
      await rm(`${folder}${DONE}`, { recursive: true });
      return done;
    } finally {
      await Promise.allSettled(given);
      await files.close();
    }
  }

  /** Deletions are carried out by the adopter. */
  async #publish({ outbox }: ReturnedFiles): Promise<void> {
    const { map } = this.#parts;
    const publisher = new Publisher(
      {
        place: (trunk, files) => map.place(trunk, files),
        retire: (trunk) => map.retire(trunk),
        remove: (files) => map.remove(files, false),
      },
      outbox!,
    );
    await publisher.publish(Number.POSITIVE_INFINITY);
  }

  #give(adopter: Gateway | undefined, row: FileRow, files: ReturnedFiles): Promise<boolean> {
    const { deployment, elsewhere } = this.#parts;
    const { key, size, crc32, local } = row;
    const about = aboutOf({ ...row, was: [] });
    const file = { key, size, crc32, about, isLarge: local.at === 'spool' };
    if (adopter?.origin === deployment.origin) {
      return elsewhere.copies.takeBack(file, files.read(row));
    }
    if (!adopter || adopter.url === null) throw new Error('its adopter has no peerUrl');
    return elsewhere.peers.at(adopter.url).takeBack(file, files.read(row));
  }
}

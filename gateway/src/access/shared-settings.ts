import { mkdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type DeploymentMap, mapSecretOf, type Setting } from '@stevedore/client/internal';
import { formatKeyFile, parseKeyFile } from './api-keys.js';
import { parsePolicies } from './policies.js';
import { changeFile, readJson, replaceFile } from './watched-file.js';

/**
 * API keys and policies of a deployment. Each gateway keeps them in its own files, which people,
 * commands and requests change as they do without a map. The map passes each change on, so a key that is
 * revoked at one gateway is revoked at all. While the map is away, each gateway goes on with its files.
 *
 * A key that was removed stays removed, and of what this gateway has never compared the map is right,
 * whatever an old file says. Otherwise what changed here wins over what changed elsewhere meanwhile.
 */

type Entries = ReadonlyMap<string, string>;

interface SharedFile {
  readonly kind: 'keys' | 'policies';
  readonly path: string;
  /** Throws `invalid_option`. */
  readonly read: (text: string) => Entries;
  readonly write: (entries: Entries) => string;
  /** What was removed never returns. */
  readonly isFinal: boolean;
}

/** What was the same here and in the map when they were compared last. */
interface Compared {
  /** Of that map. */
  readonly secret: string;
  /** The newest change that was read of it. */
  readonly since: number;
  readonly files: Readonly<Partial<Record<SharedFile['kind'], readonly [string, string][]>>>;
}

export interface SharedSettingsOptions {
  readonly map: DeploymentMap;
  readonly directory: string;
  /** Paths of the files; empty if there is none. */
  readonly apiKeys: string;
  readonly policies: string;
  readonly onError: (error: unknown) => void;
}

const COMPARED_FILE = 'settings.json';
const LOOK_INTERVAL_MS = 500;
/** How often the map is asked; where it does not tell of changes, the second. */
const QUIET_INTERVAL_MS = 10_000;
const POLL_INTERVAL_MS = 2_000;
/** A change may appear in the map so much later than others. */
const LATEST_COMMIT_MS = 15_000;
/** A start waits so long for the map. */
const START_LIMIT_MS = 3_000;

export class SharedSettings {
  readonly #options: SharedSettingsOptions;
  readonly #files: readonly SharedFile[];
  #secret: string | undefined;
  #compared: Compared | undefined;
  /** Of the files when they were compared last. */
  #versions = '';
  #nextAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #isTroubled = false;
  #looking: Promise<void> = Promise.resolve();

  constructor(options: SharedSettingsOptions) {
    this.#options = options;
    const { apiKeys, policies } = options;
    this.#files = [keyFile(apiKeys), policyFile(policies)].filter(({ path }) => path !== '');
  }

  /** Resolves once the files agree with the map, or the map does not answer in time. */
  async start(): Promise<void> {
    if (this.#files.length === 0) return;
    this.#options.map.listen((topic) => {
      if (topic !== 'settings') return;
      this.#nextAt = 0;
      void this.#look();
    });
    let limit: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      limit = setTimeout(resolve, START_LIMIT_MS);
    });
    await Promise.race([this.#look(), late]);
    clearTimeout(limit);
    this.#timer = setInterval(() => void this.#look(), LOOK_INTERVAL_MS).unref();
  }

  /** Then the map may be closed. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
  }

  #look(): Promise<void> {
    this.#looking = this.#looking.then(async () => {
      const versions = (await Promise.all(this.#files.map(({ path }) => versionOf(path)))).join();
      const now = performance.now();
      if (now < this.#nextAt && versions === this.#versions) return;
      const { map, onError } = this.#options;
      this.#nextAt = now + (map.isListening ? QUIET_INTERVAL_MS : POLL_INTERVAL_MS);
      try {
        await this.#compare();
        this.#versions = versions;
        this.#isTroubled = false;
      } catch (error) {
        if (!this.#isTroubled) onError(error);
        this.#isTroubled = true;
      }
    });
    return this.#looking;
  }

  async #compare(): Promise<void> {
    const { map, directory } = this.#options;
    this.#secret ??= await mapSecretOf(map, directory);
    const known = this.#compared ?? (await readCompared(directory));
    const before =
      known?.secret === this.#secret ? known : { secret: this.#secret, since: 0, files: {} };
    const there = await map.settingsSince(before.since - LATEST_COMMIT_MS);
    const files: Partial<Record<SharedFile['kind'], [string, string][]>> = {};
    for (const file of this.#files) {
      const base = new Map(before.files[file.kind]);
      const theirs = there.filter(({ kind }) => kind === file.kind);
      files[file.kind] = [...(await this.#exchange(file, base, theirs))];
    }
    const since = there.reduce(
      (latest, { changedAt }) => Math.max(latest, changedAt),
      before.since,
    );
    this.#compared = { secret: this.#secret, since, files };
    if (JSON.stringify(this.#compared) === JSON.stringify(known)) return;
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await replaceFile(join(directory, COMPARED_FILE), `${JSON.stringify(this.#compared)}\n`);
  }

  /** Resolves with what the file and the map have now. */
  async #exchange(file: SharedFile, base: Entries, theirs: readonly Setting[]): Promise<Entries> {
    const ours = await entriesOf(file);
    const { mine, merged } = merge(base, ours, theirs, file.isFinal);
    if (mine.length > 0) {
      const settings = mine.map(([name, body]) => ({ kind: file.kind, name, body }));
      await this.#options.map.setSettings(settings, file.isFinal);
    }
    if (sameEntries(ours, merged)) return merged;
    await changeFile(file.path, async () => {
      // What somebody has changed since is passed on the next time.
      const now = await entriesOf(file);
      return file.write(merge(base, now, theirs, file.isFinal).merged);
    });
    return merged;
  }
}

/** What changed here since `base`, for the map, and both changes together. Pure. */
function merge(base: Entries, ours: Entries, theirs: readonly Setting[], isFinal: boolean) {
  const mine = new Map<string, string | null>();
  for (const [name, body] of ours) if (base.get(name) !== body) mine.set(name, body);
  for (const name of base.keys()) if (!ours.has(name)) mine.set(name, null);
  const merged = new Map(ours);
  for (const { name, body } of theirs) {
    if (mine.get(name) === body) mine.delete(name);
    const isGone = body === null && isFinal;
    // A file that was never compared may be an old copy, with rights that a key has no more.
    const isNewHere = body !== null && !base.has(name);
    if (mine.has(name) && !isGone && !isNewHere) continue;
    mine.delete(name);
    if (body === null) merged.delete(name);
    else merged.set(name, body);
  }
  return { mine: [...mine], merged };
}

function sameEntries(one: Entries, other: Entries): boolean {
  return one.size === other.size && [...one].every(([name, body]) => other.get(name) === body);
}

function keyFile(path: string): SharedFile {
  return {
    kind: 'keys',
    path,
    isFinal: true,
    read: (text) => new Map(parseKeyFile(text, path).map((key) => [key.id, JSON.stringify(key)])),
    write: (entries) => formatKeyFile([...entries.values()].map((body) => JSON.parse(body))),
  };
}

function policyFile(path: string): SharedFile {
  return {
    kind: 'policies',
    path,
    isFinal: false,
    read: (text) => {
      const content = readJson(text, path);
      parsePolicies(content, path);
      const named = Object.entries(content as object);
      return new Map(named.map(([name, values]) => [name, JSON.stringify(values)]));
    },
    write: (entries) => {
      const named = [...entries].map(([name, body]) => [name, JSON.parse(body)]);
      return `${JSON.stringify(Object.fromEntries(named), null, 2)}\n`;
    },
  };
}

/** Of a file that is not there yet, none. */
async function entriesOf({ path, read }: SharedFile): Promise<Entries> {
  try {
    return read(await readFile(path, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new Map();
    throw error;
  }
}

async function readCompared(directory: string): Promise<Compared | undefined> {
  try {
    return JSON.parse(await readFile(join(directory, COMPARED_FILE), 'utf8')) as Compared;
  } catch {
    return undefined;
  }
}

async function versionOf(path: string): Promise<string> {
  const found = await stat(path, { bigint: true }).catch(() => undefined);
  return found ? `${found.ino}-${found.size}-${found.mtimeNs}` : '';
}

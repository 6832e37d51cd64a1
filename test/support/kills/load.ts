import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import type { Random } from '../random.js';
import { identityOf, storedTimes } from '../stored-twice.js';

/**
 * Processes of the product under load while they are killed and stopped: uploads, reads and deletions
 * at any of their gateways, and a ledger of what was acknowledged. A deletion without an answer may
 * have happened or not; where one gateway is alone, what is found then has to stay.
 */

const REQUEST_TIMEOUT_MS = 15_000;
const RETRY_MS = 100;
const MAX_FINDINGS = 50;
const GROUPS = 50;
const EXTENSIONS = ['.jpg', '.txt', '.bin', ''];
const FORM_FILES = 5;

export interface Kept {
  readonly key: string;
  readonly size: number;
  readonly digest: string;
  readonly identity: string;
  /** FastDFS ids that a gateway has told of it. */
  readonly ids: string[];
  state: 'there' | 'deleting' | 'deleted';
  /** In which it was touched last. */
  round: number;
}

export interface Answer {
  readonly status: number;
  readonly body: Buffer;
}

/** Undefined if there is none, or not in time. */
export async function ask(url: string, init: RequestInit = {}): Promise<Answer | undefined> {
  try {
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    const response = await fetch(url, { ...init, signal });
    return { status: response.status, body: Buffer.from(await response.arrayBuffer()) };
  } catch {
    return undefined;
  }
}

export const digestOf = (bytes: Uint8Array): string =>
  createHash('sha1').update(bytes).digest('hex');

export interface LoadOptions {
  readonly lanes: number;
  /** How often each is done. */
  readonly weights: Readonly<Record<'upload' | 'read' | 'delete', number>>;
  readonly maxBytes: number;
  /** Of the files, those of `largeBytes` to three times as many. */
  readonly largeShare: number;
  readonly largeBytes: number;
  /** Of the files, those that are read by a FastDFS id, too. */
  readonly idShare?: number;
  /**
   * Another number after each disturbance of the gateway, or of any part, and undefined during one:
   * what is refused in between is a finding.
   */
  readonly calm?: (of: 'gateway' | 'all') => number | undefined;
}

export class DeployedLoad {
  readonly files: Kept[] = [];
  readonly findings: string[] = [];
  readonly counts = { uploads: 0, reads: 0, deletions: 0, readAfterDeletion: 0, refused: 0 };
  /** Files that are deleted next, whatever else is. */
  condemned: Kept[] = [];
  round = 0;
  readonly #random: Random;
  readonly #urls: readonly string[];
  readonly #options: LoadOptions;
  #lanes: Promise<unknown> | undefined;
  #isOver = false;

  constructor(urls: readonly string[], random: Random, options: LoadOptions) {
    this.#urls = urls;
    this.#random = random;
    this.#options = options;
  }

  begin(): void {
    this.#isOver = false;
    this.#lanes = Promise.all(Array.from({ length: this.#options.lanes }, () => this.#lane()));
  }

  /** Resolves when every request under way has ended. */
  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#lanes;
  }

  find(what: string): void {
    if (this.findings.length < MAX_FINDINGS) this.findings.push(what);
  }

  /** What is wrong with the files at these gateways, each asked until it is right or late. */
  async compare(
    urls: readonly string[],
    limitMs: number,
    files: Iterable<Kept> = this.files,
  ): Promise<void> {
    const end = performance.now() + limitMs;
    const rest = files[Symbol.iterator]();
    const lane = async (): Promise<void> => {
      for (let next = rest.next(); !next.done; next = rest.next()) {
        for (const url of urls) await this.#compareOne(next.value, url, end);
      }
    };
    await Promise.all(Array.from({ length: 2 * this.#options.lanes }, lane));
  }

  /**
   * Living files that are in several trunks of one store path. A trunk whose confirmation was lost is
   * found and deleted in time, and so is one that was emptied.
   */
  async storedTwice(storePaths: readonly string[], limitMs: number): Promise<readonly string[]> {
    const end = performance.now() + limitMs;
    const living = this.files.filter(({ state }) => state === 'there');
    for (;;) {
      const twice = storePaths.flatMap((path) => {
        const times = storedTimes(path);
        return living.filter(({ identity }) => (times.get(identity) ?? 0) > 1);
      });
      if (twice.length === 0 || performance.now() > end) return twice.map(({ key }) => key);
      await sleep(10 * RETRY_MS);
    }
  }

  async #lane(): Promise<void> {
    const { upload, read, delete: deletion } = this.#options.weights;
    const works = [
      [upload, () => this.#upload()],
      [read, () => this.#read()],
      [deletion, () => this.#delete()],
    ] as const;
    while (!this.#isOver) {
      const [, work] = this.#random.pickByWeight(works);
      if (!(await work())) await sleep(RETRY_MS / 2);
    }
  }

  /** Mostly one file, now and then some in a form. False if they were refused. */
  async #upload(): Promise<boolean> {
    const random = this.#random;
    const isForm = random.below(FORM_FILES * 10) === 0;
    const contents = Array.from({ length: isForm ? FORM_FILES : 1 }, () => this.#content());
    const name = `file-${random.below(1000)}${random.pick(EXTENSIONS)}`;
    const form = new FormData();
    for (const content of contents) form.append('file', new Blob([content]), name);
    const group = random.below(10) === 0 ? { 'x-affinity-group': `${random.below(GROUPS)}` } : {};
    const headers = { 'x-filename': name, ...group };
    const init = isForm ? { body: form } : { body: contents[0]!, headers };
    const made = await this.#asked('an upload', '/files', { ...init, method: 'POST' }, [201]);
    if (made?.status !== 201) return false;
    const receipts: { key: string }[] = [JSON.parse(made.body.toString())].flat();
    if (receipts.length !== contents.length) this.find(`not one receipt a file: ${made.body}`);
    for (const [index, content] of contents.entries()) {
      const { key } = receipts[index]!;
      const { length: size } = content;
      const { round } = this;
      const identity = identityOf(crc32(content), size);
      const about = { key, size, digest: digestOf(content), identity, ids: [] };
      this.files.push({ ...about, state: 'there', round });
      this.counts.uploads += 1;
    }
    return true;
  }

  #content(): Buffer {
    const { maxBytes, largeBytes, largeShare } = this.#options;
    const isLarge = this.#random.next() < largeShare;
    return randomBytes(
      isLarge ? largeBytes + this.#random.below(2 * largeBytes) : 1 + this.#random.below(maxBytes),
    );
  }

  async #read(): Promise<boolean> {
    const file = this.#anyFile();
    if (!file || file.state === 'deleting') return true;
    const { state, key, digest, size } = file;
    // Small files are whole before the head of an answer is sent; large ones come from a storage.
    const of = size >= this.#options.largeBytes ? 'all' : 'gateway';
    // While its storage is away, a merged file has to wait.
    const answer = await this.#asked('a read', `/files/${key}`, {}, [200, 404, 503], of);
    if (answer?.status === 200) {
      if (digestOf(answer.body) !== digest) this.find(`${key}: other bytes`);
      if (state === 'deleted') this.counts.readAfterDeletion += 1;
      else this.counts.reads += 1;
    } else if (state === 'there') {
      this.counts.refused += 1;
      if (answer?.status === 404 && file.state === 'there') this.find(`${key}: 404 under load`);
    }
    return answer !== undefined;
  }

  async #delete(): Promise<boolean> {
    const file = this.condemned.pop() ?? this.#anyFile();
    if (file?.state !== 'there') return true;
    file.state = 'deleting';
    file.round = this.round;
    await this.#noteId(file, this.#random.pick(this.#urls));
    const path = `/files/${file.key}`;
    const answer = await this.#asked('a deletion', path, { method: 'DELETE' }, [204]);
    if (answer?.status !== 204) return false;
    file.state = 'deleted';
    this.counts.deletions += 1;
    return true;
  }

  /** At any gateway. Another status than these is a finding, unless a disturbance explains it. */
  async #asked(
    what: string,
    path: string,
    init: RequestInit,
    good: readonly number[],
    of: 'gateway' | 'all' = 'gateway',
  ): Promise<Answer | undefined> {
    const { calm = () => undefined } = this.#options;
    const url = this.#random.pick(this.#urls);
    const before = calm(of);
    const answer = await ask(`${url}${path}`, init);
    const isCalm = before !== undefined && calm(of) === before;
    if (isCalm && !good.includes(answer?.status ?? 0)) {
      this.find(`${what} at ${url}${path}: ${answer?.status} ${answer?.body}`);
    }
    return answer;
  }

  /** Resolves when the youngest living files have their ids. */
  async merged(url: string, limitMs: number, count: number): Promise<void> {
    const end = performance.now() + limitMs;
    for (const file of this.files.filter(({ state }) => state === 'there').slice(-count)) {
      while (!(await idOf(file, url))) {
        if (performance.now() > end) return this.find(`${file.key} is not merged in ${limitMs} ms`);
        await sleep(RETRY_MS / 2);
      }
    }
  }

  async #noteId(file: Kept, url: string): Promise<void> {
    if (this.#random.next() >= (this.#options.idShare ?? 0)) return;
    const id = await idOf(file, url);
    if (id !== undefined && !file.ids.includes(id)) file.ids.push(id);
  }

  /** By its key, and by each id that it had: one of before it was moved leads to it for ever. */
  async #compareOne(file: Kept, url: string, end: number): Promise<void> {
    await this.#compareAt(file, `${url}/files/${file.key}`, end);
    if (file.state === 'there') await this.#noteId(file, url);
    for (const id of file.ids) await this.#compareAt(file, encodeURI(`${url}/${id}`), end);
  }

  async #compareAt(file: Kept, url: string, end: number): Promise<void> {
    const isAlone = this.#urls.length === 1;
    for (;;) {
      const { state } = file;
      const { status = 0, body } = (await ask(url)) ?? {};
      const isThere = status === 200 && digestOf(body!) === file.digest;
      const isGone = status === 404;
      if (state === 'deleting' && isAlone && (isThere || isGone)) {
        file.state = isThere ? 'there' : 'deleted';
      }
      if (state === 'there' ? isThere : isGone || (isThere && state === 'deleting')) return;
      // Only one that is gone at another gateway may still be read for a moment.
      const isFinal = status === 200 ? state !== 'deleted' || isAlone : isGone;
      if (isFinal || performance.now() > end) {
        const what = status === 200 ? `${body!.length} bytes` : `${status} ${body}`;
        return this.find(`${file.key}, ${state}: ${what} at ${url}`);
      }
      await sleep(RETRY_MS);
    }
  }

  #anyFile(): Kept | undefined {
    return this.files[this.#random.below(Math.max(1, this.files.length))];
  }
}

/** The FastDFS id of a file that has one. */
async function idOf({ key }: Kept, url: string): Promise<string | undefined> {
  const answer = await ask(`${url}/files/${key}/info`);
  if (answer?.status !== 200) return undefined;
  return (JSON.parse(answer.body.toString()) as { fileId?: string }).fileId;
}

/** Stops one for a while, or kills it and starts it again. */
export async function trouble(
  target: {
    signal(signal: 'SIGSTOP' | 'SIGCONT'): void;
    kill(): Promise<void>;
    restart(): Promise<void>;
  },
  random: Random,
  share: { readonly stops: number; readonly maxMs: number },
): Promise<void> {
  const ms = share.maxMs / 5 + random.below(share.maxMs);
  if (random.next() < share.stops) {
    target.signal('SIGSTOP');
    await sleep(ms);
    target.signal('SIGCONT');
  } else {
    await target.kill();
    await sleep(ms / 2);
    await target.restart();
  }
}

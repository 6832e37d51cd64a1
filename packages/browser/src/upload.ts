import { type Answer, mayPass, refusal, request, retryAfterMs, UploadError } from './requests.js';

/**
 * A resumable upload of one file, by tus 1.0. Bytes that the server has acknowledged are not sent
 * again: after a lost connection, a pause, or a reload of the page, it continues from there.
 */

export interface UploadOptions {
  /**
   * Where uploads are created: `/uploads`, `/uploads/POLICY`, or a presigned URL of one. A function
   * is called when the upload begins, to get a presigned URL from your server.
   */
  readonly endpoint: string | ((file: Blob) => string | Promise<string>);
  /** Default: the type of a File. */
  readonly name?: string;
  readonly type?: string;
  /** Affinity group: files of one group are stored side by side. */
  readonly group?: string;
  /** Sent with every request, such as `Authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Sends cookies to another origin too. */
  readonly withCredentials?: boolean;
  /** Most bytes of one request, for a proxy that limits bodies. Default: the whole file. */
  readonly maxRequestBytes?: number;
  /** Retries without any progress before it fails. Default 10, about five minutes. */
  readonly maxRetries?: number;
  /**
   * Where to keep the URLs of unfinished uploads, so that the same file continues after a reload.
   * Default `localStorage`; `null` keeps none. A presigned URL needs none.
   */
  readonly storage?: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> | null;
  /** Bytes sent so far, and of the whole file. */
  readonly onProgress?: (sentBytes: number, totalBytes: number) => void;
}

export interface StoredFile {
  readonly key: string;
  /** As the server has it: a path, or a whole URL. */
  readonly url: string;
}

const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 60_000;
const TUS = { 'Tus-Resumable': '1.0.0' };

/** Begins at once. */
export function upload(file: Blob, options: UploadOptions): Upload {
  return new Upload(file, options);
}

export class Upload {
  /** Resolves when the server has the whole file; rejects with UploadError. */
  readonly done: Promise<StoredFile>;
  readonly #file: Blob;
  readonly #options: UploadOptions;
  /** Aborts the current request or pause. */
  #current = new AbortController();
  #isPaused = false;
  #isAborted = false;
  #wake = (): void => {};
  /** The URL of the upload, once it is created. */
  #url: string | undefined;
  #retries = 0;
  #sentBytes = 0;

  constructor(file: Blob, options: UploadOptions) {
    this.#file = file;
    this.#options = options;
    this.done = this.#run();
    // A caller that ignores `done` must not get an unhandled rejection.
    this.done.catch(() => {});
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Bytes sent; after a lost connection less than before. */
  get sentBytes(): number {
    return this.#sentBytes;
  }

  pause(): void {
    this.#isPaused = true;
    this.#current.abort();
  }

  resume(): void {
    this.#isPaused = false;
    this.#wake();
  }

  /** Aborts it, and removes its bytes from the server. */
  abort(): void {
    this.#isAborted = true;
    this.#current.abort();
    this.#wake();
  }

  async #run(): Promise<StoredFile> {
    const { endpoint, storage = globalThis.localStorage ?? null } = this.#options;
    const kept = typeof endpoint === 'string' && !/[?&]signature=/.test(endpoint) ? storage : null;
    const name = `stevedore ${[endpoint, ...this.#identity(), this.#options.group].join(' ')}`;
    this.#url = kept?.getItem(name) ?? undefined;
    try {
      let where: StoredFile | number = this.#url === undefined ? 0 : await this.#offset(this.#url);
      while (typeof where === 'number') {
        if (this.#url === undefined) {
          where = await this.#begin();
          if (this.#url !== undefined) kept?.setItem(name, this.#url);
        } else {
          where = await this.#send(this.#url, where);
        }
      }
      kept?.removeItem(name);
      this.#progress(this.#file.size);
      return where;
    } catch (error) {
      const isFinal = error instanceof UploadError && error.code !== 'unreachable';
      if (isFinal) kept?.removeItem(name);
      if (this.#isAborted && this.#url !== undefined) void this.#remove(this.#url);
      throw error;
    }
  }

  /** Resolves with the file if it has no bytes. */
  async #begin(): Promise<StoredFile | 0> {
    const { endpoint, group } = this.#options;
    const url = typeof endpoint === 'string' ? endpoint : await endpoint(this.#file);
    const [filename, filetype] = this.#identity();
    const metadata = Object.entries({ filename, filetype, group })
      .filter(([, value]) => value)
      .map(
        ([key, value]) => `${key} ${btoa(String.fromCharCode(...new TextEncoder().encode(value)))}`,
      );
    const headers = {
      'Upload-Length': String(this.#file.size),
      ...(metadata.length > 0 ? { 'Upload-Metadata': metadata.join(',') } : {}),
    };
    const answer = await this.#patiently(() => this.#request('POST', url, headers));
    const location = answer.header('Location');
    if (answer.status !== 201 || location === null) throw refusal(answer);
    this.#url = besideEndpoint(location, new URL(url, globalThis.location?.href));
    return storedIn(answer) ?? 0;
  }

  /**
   * The offset on the server, or the finished file; forgets an upload that the server does not know
   * any more.
   */
  async #offset(url: string): Promise<StoredFile | number> {
    const answer = await this.#patiently(() => this.#request('HEAD', url, {}));
    const stored = storedIn(answer);
    if (stored) return stored;
    const offset = Number(answer.header('Upload-Offset') ?? Number.NaN);
    const isThere = answer.status < 300 && offset <= this.#file.size;
    if (!isThere) this.#url = undefined;
    return isThere ? offset : 0;
  }

  /** Sends bytes from the offset; resolves with the file, or with the next offset. */
  async #send(url: string, offset: number): Promise<StoredFile | number> {
    const { maxRequestBytes = Number.POSITIVE_INFINITY } = this.#options;
    const end = Math.min(offset + maxRequestBytes, this.#file.size);
    this.#progress(offset);
    const headers = {
      'Upload-Offset': String(offset),
      'Content-Type': 'application/offset+octet-stream',
    };
    await this.#turn();
    const answer = await this.#request(
      'PATCH',
      url,
      headers,
      this.#file.slice(offset, end),
      (sent) => this.#progress(offset + sent),
    );
    if (answer.status === 204) {
      const received = Number(answer.header('Upload-Offset') ?? offset);
      if (received > offset) this.#retries = 0;
      return storedIn(answer) ?? received;
    }
    if (answer.status === 404 || answer.status === 410) {
      await this.#pause(answer);
      this.#url = undefined;
      return 0;
    }
    if (!mayPass(answer.status)) throw refusal(answer);
    await this.#pause(answer);
    const there = await this.#offset(url);
    if (typeof there === 'number' && there > offset) this.#retries = 0;
    return there;
  }

  /** Repeats a request until its answer is final. */
  async #patiently(ask: () => Promise<Answer>): Promise<Answer> {
    for (;;) {
      await this.#turn();
      const answer = await ask();
      if (!mayPass(answer.status)) return answer;
      await this.#pause(answer);
    }
  }

  /** Waits while it is paused. Rejects once it is aborted. */
  async #turn(): Promise<void> {
    while (this.#isPaused && !this.#isAborted) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    if (this.#isAborted) throw new UploadError('aborted', 'The upload was aborted.');
    this.#current = new AbortController();
  }

  /** Before a retry. Longer each time; shorter if the browser comes back online. */
  async #pause(failed: Answer): Promise<void> {
    if (this.#isPaused || this.#isAborted) return this.#turn();
    this.#retries += 1;
    if (this.#retries > (this.#options.maxRetries ?? 10)) {
      const { status, message } = refusal(failed);
      const why = status === 0 ? 'The server cannot be reached.' : message;
      throw new UploadError('unreachable', why, status);
    }
    const grown = FIRST_PAUSE_MS * 2 ** (this.#retries - 1);
    const ms = Math.max(Math.min(grown, MAX_PAUSE_MS), retryAfterMs(failed));
    const { signal } = this.#current;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        globalThis.removeEventListener?.('online', done);
        resolve();
      };
      // Random, so that clients that lost the server at once do not all return at once.
      const timer = setTimeout(done, ms * (0.5 + Math.random() / 2));
      signal.addEventListener('abort', done);
      globalThis.addEventListener?.('online', done);
    });
    await this.#turn();
  }

  #request(
    method: string,
    url: string,
    headers: Readonly<Record<string, string>>,
    body?: Blob,
    onSent?: (bytes: number) => void,
  ): Promise<Answer> {
    return request({
      method,
      url,
      headers: { ...this.#options.headers, ...TUS, ...headers },
      ...(body ? { body } : {}),
      ...(onSent ? { onSent } : {}),
      withCredentials: this.#options.withCredentials ?? false,
      signal: this.#current.signal,
    });
  }

  async #remove(url: string): Promise<void> {
    this.#current = new AbortController();
    await this.#request('DELETE', url, {});
  }

  #progress(bytes: number): void {
    this.#sentBytes = bytes;
    this.#options.onProgress?.(bytes, this.#file.size);
  }

  /** Name and type, and the properties that distinguish files of the same name. */
  #identity(): [name: string, type: string, size: number, changed: number] {
    const { name = '', lastModified = 0, type, size } = this.#file as Partial<File> & Blob;
    return [this.#options.name ?? name, this.#options.type ?? type, size, lastModified];
  }
}

/**
 * The URL of an upload at the address by which its endpoint was reached: the server may know itself
 * by another one. The upload is below the endpoint or, where that is a policy's, below its parent.
 */
function besideEndpoint(location: string, endpoint: URL): string {
  const [collection = '', id = ''] = new URL(location, endpoint).pathname.split('/').slice(-2);
  const isBelow = endpoint.pathname.endsWith(`/${collection}`);
  return new URL(isBelow ? `${collection}/${id}` : id, endpoint).href;
}

function storedIn({ status, header }: Answer): StoredFile | undefined {
  const key = status < 300 ? header('X-File-Key') : null;
  if (key === null) return undefined;
  return { key, url: header('Content-Location') ?? `/files/${key}` };
}

import { Worker } from 'node:worker_threads';
import { StartError } from '@stevedore/wire';
import type {
  EmbeddedPorts,
  EmbeddedSettings,
  FromWorker,
  PlainError,
  ToWorker,
} from './embedded-worker.js';

/**
 * A storage, and a tracker unless it joins others, in a thread of this process: storing a trunk never blocks the main
 * thread, and killing the process ends all of it.
 */

export interface EmbeddedNodeOptions extends EmbeddedSettings {
  /**
   * Called with failures after the start: those that the node survives (a request that met a broken
   * disk), and its end (code `embedded_node_stopped`).
   */
  readonly onError?: (error: Error) => void;
}

/** A file that is handed to the node on its own disk. */
export interface HandedFile {
  readonly size: number;
  /** Without its dot. */
  readonly extension: string;
  /** Writes the file, which is there and empty, to this path; the storage syncs what is left. */
  readonly write: (path: string) => Promise<void>;
}

export interface EmbeddedNode extends EmbeddedPorts, AsyncDisposable {
  /**
   * Stores a file, which is written once, to the node's own disk, and passes no socket. Resolves with
   * its id once it is durable. Size and CRC-32 in the id are those that the storage has read back.
   * Rejects with the error of `write` or of the storage, which then has no such file; with
   * `embedded_node_stopped`, it may have.
   */
  take(file: HandedFile): Promise<string>;
  /** Gives requests in flight a moment to finish, then ends the thread. */
  close(): Promise<void>;
}

/** The embedded node failed or stopped. `code` is the system's error code if there is one. */
class EmbeddedNodeError extends Error {
  override readonly name = 'EmbeddedNodeError';
  readonly code: string;

  constructor(code: string, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

/**
 * Resolves when uploads work. Rejects with an error whose `code` is EADDRINUSE,
 * EACCES, ENOTDIR and so on, and whose message says what to do.
 */
export async function startEmbeddedNode(options: EmbeddedNodeOptions): Promise<EmbeddedNode> {
  const { onError = () => {}, ...workerData } = options;
  const worker = new Worker(new URL('./embedded-worker.js', import.meta.url), {
    workerData,
    name: 'stevedore-node',
  });
  const exited = new Promise<number>((resolve) => worker.once('exit', resolve));
  const ready = await started(worker, exited);

  let closing = false;
  let lastError: Error | undefined;
  const handed = new HandedFiles((message) => worker.postMessage(message));
  worker.on('message', (message: FromWorker) => {
    if (message.kind === 'trouble') onError(trouble(message.error));
    else handed.on(message);
  });
  worker.on('error', (error) => {
    lastError = error;
  });
  void exited.then((exitCode) => {
    handed.end();
    if (closing) return;
    const why = lastError === undefined ? `exit code ${exitCode}` : lastError.message;
    onError(
      new EmbeddedNodeError(
        'embedded_node_stopped',
        `The embedded tracker and storage have stopped (${why}); start them again.`,
        lastError,
      ),
    );
  });

  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing = true;
    closed ??= (async () => {
      worker.postMessage({ kind: 'close' } satisfies ToWorker);
      await exited;
    })();
    return closed;
  };
  const { trackers, trackerPort, storagePort } = ready;
  return {
    trackers,
    trackerPort,
    storagePort,
    take: (file) => handed.take(file),
    close,
    [Symbol.asyncDispose]: close,
  };
}

interface UnderWay {
  readonly write: HandedFile['write'];
  readonly resolve: (fileId: string) => void;
  readonly reject: (error: unknown) => void;
  /** Why it could not be written. */
  failure?: unknown;
}

/** Files on their way to the storage by its own disk. */
class HandedFiles {
  readonly #tell: (message: ToWorker) => void;
  readonly #files = new Map<number, UnderWay>();
  #count = 0;
  #isOver = false;

  constructor(tell: (message: ToWorker) => void) {
    this.#tell = tell;
  }

  take({ size: bytes, extension, write }: HandedFile): Promise<string> {
    return new Promise((resolve, reject) => {
      if (this.#isOver) return reject(stopped());
      this.#count += 1;
      this.#files.set(this.#count, { write, resolve, reject });
      this.#tell({ kind: 'take', number: this.#count, bytes, extension });
    });
  }

  on(message: FromWorker): void {
    if (!('number' in message)) return;
    const { number } = message;
    const file = this.#files.get(number);
    if (!file) return;
    if (message.kind === 'write') return void this.#write(number, file, message.path);
    this.#files.delete(number);
    if (message.kind === 'taken') file.resolve(message.fileId);
    else file.reject('failure' in file ? file.failure : trouble(message.error));
  }

  /** The thread has ended. */
  end(): void {
    this.#isOver = true;
    for (const { reject } of this.#files.values()) reject(stopped());
    this.#files.clear();
  }

  async #write(number: number, file: UnderWay, path: string): Promise<void> {
    try {
      await file.write(path);
    } catch (error) {
      file.failure = error;
    }
    this.#tell({ kind: 'written', number, isWhole: !('failure' in file) });
  }
}

function stopped(): EmbeddedNodeError {
  return new EmbeddedNodeError(
    'embedded_node_stopped',
    'the embedded tracker and storage have stopped',
  );
}

/** Resolves or rejects with the worker's first result. A worker that failed exits by itself. */
async function started(worker: Worker, exited: Promise<number>): Promise<EmbeddedPorts> {
  const outcome = new Promise<EmbeddedPorts>((resolve, reject) => {
    worker.on('message', (message: FromWorker) => {
      if (message.kind === 'ready') resolve(message);
      if (message.kind === 'failed') {
        reject(new StartError(message.error.code, message.error.message));
      }
    });
    worker.on('error', reject);
    void exited.then((code) =>
      reject(new StartError('embedded_node_failed', `The embedded node ended with ${code}.`)),
    );
  });
  try {
    return await outcome;
  } catch (error) {
    await exited;
    throw error;
  }
}

function trouble({ code, message }: PlainError): EmbeddedNodeError {
  return new EmbeddedNodeError(code, message);
}

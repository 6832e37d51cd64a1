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

export interface EmbeddedNode extends EmbeddedPorts, AsyncDisposable {
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
  worker.on('message', (message: FromWorker) => {
    if (message.kind === 'trouble') onError(trouble(message.error));
  });
  worker.on('error', (error) => {
    lastError = error;
  });
  void exited.then((exitCode) => {
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
    close,
    [Symbol.asyncDispose]: close,
  };
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

import { Worker } from 'node:worker_threads';
import { DEFAULT_HOST, StartError } from '@stevedore/wire';
import type {
  EmbeddedPorts,
  EmbeddedSettings,
  FromWorker,
  PlainError,
  ToWorker,
} from './embedded-worker.js';

/**
 * A tracker and a storage in a thread of this process: storing a trunk never
 * stalls the main thread, and one kill ends everything.
 */

export interface EmbeddedNodeOptions {
  /** Where the files go; made if it is not there. */
  readonly directory: string;
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Default 0: a free one. */
  readonly trackerPort?: number;
  /** Default 0: a free one. */
  readonly storagePort?: number;
  /** Small files are rows beside their metadata. Default false. */
  readonly metadataTier?: boolean;
  /** Who has none of them is not served. Default none: everybody is. */
  readonly secrets?: readonly string[];
  /**
   * Called with failures after the start: ones the node outlives (a request that
   * met a broken disk), and its end (code `ERR_EMBEDDED_NODE_STOPPED`).
   */
  readonly onError?: (error: Error) => void;
}

export interface EmbeddedNode extends EmbeddedPorts, AsyncDisposable {
  /** Lets requests under way finish for a moment, then ends the thread. */
  close(): Promise<void>;
}

/** The embedded node failed or stopped. `code` is the system's where there is one. */
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
  const settings: EmbeddedSettings = {
    directory: options.directory,
    host: options.host ?? DEFAULT_HOST,
    trackerPort: options.trackerPort ?? 0,
    storagePort: options.storagePort ?? 0,
    metadataTier: options.metadataTier ?? false,
    secrets: options.secrets ?? [],
  };
  const worker = new Worker(new URL('./embedded-worker.js', import.meta.url), {
    workerData: settings,
    name: 'stevedore-node',
  });
  const exited = new Promise<number>((resolve) => worker.once('exit', resolve));
  const ready = await started(worker, exited);

  let closing = false;
  let lastError: Error | undefined;
  const onError = options.onError ?? (() => {});
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
    ...{ trackers, trackerPort, storagePort },
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** The worker's first word that counts. A worker that has failed ends by itself. */
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

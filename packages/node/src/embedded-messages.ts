/** What the embedded node's worker and its owner tell each other. */

export interface EmbeddedSettings {
  readonly directory: string;
  readonly host: string;
  readonly trackerPort: number;
  readonly storagePort: number;
  readonly metadataTier: boolean;
  readonly secrets: readonly string[];
}

/** Errors lose their code on the way between threads, so they travel in parts. */
export interface PlainError {
  readonly name: string;
  readonly code: string;
  readonly message: string;
}

export type FromWorker =
  | { readonly kind: 'ready'; readonly trackerPort: number; readonly storagePort: number }
  | { readonly kind: 'failed'; readonly error: PlainError }
  | { readonly kind: 'trouble'; readonly error: PlainError };

export interface ToWorker {
  readonly kind: 'close';
}

/** Where a client on this machine reaches a server that listens on `host`. */
export function reachableHost(host: string): string {
  return host === '0.0.0.0' ? '127.0.0.1' : host;
}

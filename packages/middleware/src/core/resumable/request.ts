import type { Receipt, Store, UnfinishedUpload } from '@stevedore/client/connect';
import type { UploadPolicy } from '../upload/policy.js';
import type { UploadQuota } from '../upload/request-body.js';

export interface ResumableRequest {
  /** Path of the collection; each upload is below it. */
  readonly path: string;
  readonly filesPath: string;
  /** Of the upload; absent for the path of all of them. */
  readonly id?: string | undefined;
  /** The client whose share of the unfinished uploads a new one uses. */
  readonly client: string;
  /** For a request that creates an upload. */
  readonly policy?: UploadPolicy;
  readonly scope?: string;
  readonly mark?: Buffer | undefined;
  /** Uploads of this scope alone exist for the request, finished ones too. Default: those of all clients. */
  readonly visibleScope?: string | undefined;
  readonly quota?: UploadQuota | undefined;
  /** Called once, at the end, with the number of bytes that were added to the upload `id`. */
  readonly onReceived?: (bytes: number, id: string | undefined) => void | Promise<void>;
  /**
   * Called before the answer that ends an upload; if it throws, its error is the answer. `ids`: the
   * upload or, for a joined one, the uploads that were its parts.
   */
  readonly onStored?: (receipt: Receipt, ids: readonly string[]) => void | Promise<void>;
}

/** What the route stores beside a resumable upload until it is finished. */
export interface Note {
  /** The client that owns it. */
  readonly scope: string;
  /** `Upload-Metadata`, as received. */
  readonly metadata: string;
  /** It is a part of another upload, and never a file by itself. */
  readonly isPart: boolean;
  readonly checkContent: boolean;
  readonly maxBytes: number;
}

export function noteOf({ note }: UnfinishedUpload): Note {
  return JSON.parse(note) as Note;
}

/** The owner of the upload; undefined if there is no unfinished one. */
export function scopeOfUpload({ unfinished }: Store, id: string): string | undefined {
  const found = unfinished?.find(id);
  return found && noteOf(found).scope;
}

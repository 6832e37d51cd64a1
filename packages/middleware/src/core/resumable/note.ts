import type { Store, UnfinishedUpload } from '@stevedore/client';

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

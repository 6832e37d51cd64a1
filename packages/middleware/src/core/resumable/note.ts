import type { Store, UnfinishedUpload } from '@stevedore/client';

/** What the route keeps beside an upload in several requests until it is finished. */
export interface Note {
  /** Whose it is. */
  readonly scope: string;
  /** `Upload-Metadata`, as it came. */
  readonly metadata: string;
  /** It is a part of another upload, and never a file. */
  readonly isPart: boolean;
  readonly checkContent: boolean;
  readonly maxBytes: number;
}

export function noteOf({ note }: UnfinishedUpload): Note {
  return JSON.parse(note) as Note;
}

/** Whose upload it is; undefined where there is none that has not ended. */
export function scopeOfUpload({ unfinished }: Store, id: string): string | undefined {
  const found = unfinished?.find(id);
  return found && noteOf(found).scope;
}

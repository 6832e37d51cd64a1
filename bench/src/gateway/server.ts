/** What the servers of this benchmark can do, and what the load has to send to each. */

export interface StartOptions {
  readonly directory: string;
  /** Everything the gateway can check of a request is checked. */
  readonly checked: boolean;
}

export interface Started {
  readonly port: number;
  /** Headers of an upload beside those of HTTP itself, as they stand in the request. */
  readonly uploadHeaders: string;
  readonly uploadPath: string;
  /** Paths of the files to download. */
  readonly paths: readonly string[];
}

export type ServerHandlers = {
  readonly start: (options: StartOptions) => Promise<Started>;
};

/** A PNG as far as its first bytes go. */
export function fileBytes(bytes: number): Buffer {
  const content = Buffer.alloc(bytes, 'stevedore ');
  Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489', 'hex').copy(
    content,
  );
  return content;
}

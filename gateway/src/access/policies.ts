import { isStoreError } from '@stevedore/client';
import { asStoreError, invalidOption } from '@stevedore/client/internal';
import { checkPolicy, type UploadPolicy } from '@stevedore/middleware/core';
import { fromFile, option, parseOptions, type RawOptions } from '@stevedore/options';
import { readJson, WatchedFile, type WatchedFileOptions } from './watched-file.js';

/**
 * Upload policies by name, from a JSON file: `default` applies to `POST /files`, every other one to
 * `POST /uploads/NAME`. Sizes and durations are written as in options. A change holds from the next
 * upload on.
 *
 * { "avatars": { "maxFileSize": "2MiB", "types": ["image/*"], "checkContent": true } }
 */

export type Policies = Readonly<Record<string, UploadPolicy>>;

/** As they are now. */
export interface PolicySource {
  readonly current: Policies;
}

/** Undefined if there is none of that name, which may come from a request. */
export function policyNamed({ current }: PolicySource, name: string): UploadPolicy | undefined {
  return Object.hasOwn(current, name) ? current[name] : undefined;
}

/** 0 and empty mean that the policy does not set it. */
export const policyOptions = {
  maxFileSize: option.size(0, 'longest file'),
  maxFiles: option.integer(0, 'most files in one request'),
  maxTotalSize: option.size(0, 'all files of one request'),
  types: option.list([], 'declared types that are taken'),
  checkContent: option.boolean(
    false,
    'hold the first bytes of each file against its declared type',
  ),
  durability: option.choice('', ['', 'sync', 'os'], 'what an upload is acknowledged after'),
  group: option.text('', 'affinity group'),
  ttl: option.duration(0, 'how long files live'),
};

const NAME = /^[A-Za-z0-9_-]{1,64}$/;

/** The file's content: each policy as it was typed. */
type Texts = Readonly<Record<string, RawOptions>>;

interface Content {
  readonly texts: Texts;
  readonly policies: Policies;
}

export class PolicyFile implements PolicySource {
  readonly file: WatchedFile<Content>;

  private constructor(file: WatchedFile<Content>) {
    this.file = file;
  }

  /** Rejects with `invalid_option` if the file is missing or malformed. */
  static async open(options: Omit<WatchedFileOptions<unknown>, 'parse'>): Promise<PolicyFile> {
    const parse = (text: string, path: string): Content => {
      const texts = readJson(text, path);
      return { policies: parsePolicies(texts, path), texts: texts as Texts };
    };
    try {
      return new PolicyFile(await WatchedFile.open({ ...options, parse }));
    } catch (error) {
      if (isStoreError(error)) throw error;
      throw invalidOption(`policies: ${(error as Error).message}`);
    }
  }

  get current(): Policies {
    return this.file.content.policies;
  }

  /**
   * Makes or replaces a policy, or takes it away. Throws `invalid_option`; rejects with the system's
   * error.
   */
  set(name: string, values: RawOptions | undefined): Promise<void> {
    return this.file.change(({ texts }) => {
      const { [name]: _, ...others } = texts;
      const changed = values === undefined ? others : { ...texts, [name]: values };
      return `${JSON.stringify(changed, null, 2)}\n`;
    });
  }
}

export function parsePolicies(content: unknown, path: string): Policies {
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    throw invalidOption(`${path}: an object of policies is needed`);
  }
  const policies: Record<string, UploadPolicy> = Object.create(null);
  for (const [name, values] of Object.entries(content)) {
    if (!NAME.test(name)) throw invalidOption(`${path}: "${name}" cannot be part of a path`);
    const where = `${path}: policy ${name}`;
    if (typeof values !== 'object' || values === null) {
      throw invalidOption(`${where}: an object is needed`);
    }
    const source = fromFile(where, values as RawOptions);
    const read = asStoreError(() => parseOptions(policyOptions, [source]));
    policies[name] = checkPolicy({
      ...(read.maxFileSize === 0 ? {} : { maxFileBytes: read.maxFileSize }),
      ...(read.maxFiles === 0 ? {} : { maxFiles: read.maxFiles }),
      ...(read.maxTotalSize === 0 ? {} : { maxTotalBytes: read.maxTotalSize }),
      ...(read.types.length === 0 ? {} : { types: read.types }),
      ...(read.checkContent ? { checkContent: true } : {}),
      ...(read.durability === '' ? {} : { durability: read.durability }),
      ...(read.group === '' ? {} : { group: read.group }),
      ...(read.ttl === 0 ? {} : { ttlMs: read.ttl }),
    });
  }
  return policies;
}

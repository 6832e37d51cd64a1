import { readFileSync } from 'node:fs';
import { asStoreError, invalidOption } from '@stevedore/client';
import { checkPolicy, type UploadPolicy } from '@stevedore/middleware/core';
import { fromFile, option, parseOptions, type RawOptions } from '@stevedore/options';
import { isError } from '@stevedore/protocol';

/**
 * Upload policies by name, from a JSON file: `default` applies to `POST /files`, every other one to
 * `POST /uploads/NAME`. Sizes and durations are written as in options.
 *
 * { "avatars": { "maxFileSize": "2MiB", "types": ["image/*"], "checkContent": true } }
 */

export type Policies = Readonly<Record<string, UploadPolicy>>;

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

/** Throws `invalid_option`. */
export function readPolicies(path: string): Policies {
  if (path === '') return {};
  try {
    return parsePolicies(JSON.parse(readFileSync(path, 'utf8')), path);
  } catch (error) {
    if (isError(error) && (error.name === 'SyntaxError' || 'syscall' in error)) {
      throw invalidOption(`${path}: ${error.message}`);
    }
    throw error;
  }
}

export function parsePolicies(content: unknown, path: string): Policies {
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    throw invalidOption(`${path}: an object of policies is needed`);
  }
  const policies: Record<string, UploadPolicy> = {};
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

import { readFileSync } from 'node:fs';
import {
  fromFile,
  invalidOption,
  type OptionSpec,
  parseOptions,
  type RawOptions,
} from '@stevedore/client';
import { checkPolicy, type UploadPolicy } from '@stevedore/middleware/core';

/**
 * Upload policies by name, from a JSON file: `default` is that of `POST /files`,
 * every other one that of `POST /uploads/NAME`. Sizes and durations as in options.
 *
 *   { "avatars": { "maxFileSize": "2MiB", "types": ["image/*"], "checkContent": true } }
 */

export type Policies = Readonly<Record<string, UploadPolicy>>;

/** 0 and empty stand for what is not said. */
export const policyOptions = {
  maxFileSize: { kind: 'size', default: 0, help: 'one file' } as OptionSpec<number>,
  maxFiles: { kind: 'integer', default: 0, help: 'files of one request' } as OptionSpec<number>,
  maxTotalSize: {
    kind: 'size',
    default: 0,
    help: 'all files of one request',
  } as OptionSpec<number>,
  types: { kind: 'list', default: [], help: 'declared types' } as OptionSpec<readonly string[]>,
  checkContent: { kind: 'boolean', default: false, help: 'first bytes' } as OptionSpec<boolean>,
  durability: {
    kind: 'text',
    default: '',
    choices: ['', 'sync', 'os'],
    help: 'when it is acknowledged',
  } as OptionSpec<'' | 'sync' | 'os'>,
  group: { kind: 'text', default: '', help: 'affinity group' } as OptionSpec<string>,
  ttl: { kind: 'duration', default: 0, help: 'how long files live' } as OptionSpec<number>,
};

const NAME = /^[A-Za-z0-9_-]{1,64}$/;

/** Throws `invalid_option`. */
export function readPolicies(path: string): Policies {
  if (path === '') return {};
  try {
    return parsePolicies(JSON.parse(readFileSync(path, 'utf8')), path);
  } catch (error) {
    if (error instanceof SyntaxError || (error instanceof Error && 'syscall' in error)) {
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
    if (!NAME.test(name)) throw invalidOption(`${path}: "${name}" is no name for a path`);
    const where = `${path}: policy ${name}`;
    if (typeof values !== 'object' || values === null) {
      throw invalidOption(`${where}: an object is needed`);
    }
    const read = parseOptions(policyOptions, [fromFile(where, values as RawOptions)]);
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

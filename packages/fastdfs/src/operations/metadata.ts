import {
  decodeMetadata,
  encodeMetadata,
  getMetadata as getMetadataCommand,
  type Metadata,
  type MetadataMode,
  ProtocolError,
  QueryInfoFlag,
  queryFileInfo,
  queryUpdate,
  setMetadata as setMetadataCommand,
} from '@stevedore/protocol';
import type { Address } from '@stevedore/wire';
import { invalid } from '../body.js';
import { type CallOptions, Deadline } from '../deadline.js';
import { isNotFound } from '../errors.js';
import { checkFileId, factsOf, nameOf } from '../file-ids.js';
import type { Context } from './context.js';
import { readFrom } from './reading.js';

/** Metadata: names and values attached to a file. */

export interface SetMetadataOptions extends CallOptions {
  /**
   * `overwrite` replaces all of it; `merge` changes and adds the given names. Default `overwrite`.
   */
  readonly mode?: MetadataMode | undefined;
}

/** The protocol has no limit; this one keeps a bad server from filling memory. */
const MAX_METADATA_BYTES = 4 * 1024 * 1024;

export async function setMetadata(
  context: Context,
  fileId: string,
  metadata: Metadata,
  options: SetMetadataOptions,
): Promise<void> {
  const id = checkFileId('setMetadata', fileId);
  const { mode = 'overwrite' } = options;
  if (mode !== 'overwrite' && mode !== 'merge') throw invalid('setMetadata', `mode "${mode}"`);
  const bytes = checkMetadata(metadata);
  await context.run(new Deadline('setMetadata', options, 0, fileId), async (deadline) => {
    const storage = await context.updateTarget(id, deadline);
    const request = { ...nameOf(id), mode, metadata: bytes };
    await context.caller.call(storage, setMetadataCommand, request, deadline);
  });
}

/**
 * A storage answers 2 for a file without metadata and for a missing file; the file's info tells
 * which. The request goes to the storage that takes changes, so that what was set is visible at
 * once.
 */
export async function getMetadata(
  context: Context,
  fileId: string,
  options: CallOptions,
): Promise<Metadata> {
  const id = checkFileId('getMetadata', fileId);
  const request = nameOf(id);
  const facts = factsOf(id);
  const { caller } = context;
  return context.run(new Deadline('getMetadata', options, 0, fileId), (deadline) => {
    const attempt = async (storage: Address, stepMs: number): Promise<Metadata> => {
      const plan = { stepMs, maxReplyBytes: MAX_METADATA_BYTES };
      try {
        return decodeMetadata(
          await caller.call(storage, getMetadataCommand, request, deadline, plan),
        );
      } catch (error) {
        if (!isNotFound(error)) throw error;
        const flags = QueryInfoFlag.noCrc | QueryInfoFlag.silent;
        await caller.call(storage, queryFileInfo, request, deadline, { stepMs, flags });
        return decodeMetadata(Buffer.alloc(0));
      }
    };
    return readFrom({ context, id, facts, deadline, attempt }, queryUpdate);
  });
}

function checkMetadata(metadata: Metadata): Buffer {
  if (typeof metadata !== 'object' || metadata === null) {
    throw invalid('setMetadata', 'metadata is no table of texts');
  }
  for (const [key, value] of Object.entries(metadata)) {
    if (key === '') throw invalid('setMetadata', 'a name is empty');
    if (typeof value !== 'string') throw invalid('setMetadata', `the value of ${key} is no text`);
  }
  try {
    return encodeMetadata(metadata);
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    throw invalid('setMetadata', error.message);
  }
}

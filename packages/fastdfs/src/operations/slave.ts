import {
  formatFileId,
  isExtension,
  parseFileName,
  SLAVE_PREFIX_BYTES,
  slaveName,
  uploadExtensionOf,
  uploadSlaveFile,
} from '@stevedore/protocol';
import {
  type Body,
  type BodyOptions,
  checkBody,
  invalid,
  knownSize,
  prepareBody,
} from '../body.js';
import { type CallOptions, Deadline } from '../deadline.js';
import { storedExtension } from '../description.js';
import { orphanOf } from '../events.js';
import { type Context, checkFileId } from './context.js';
import { updateTarget } from './update.js';
import { namedFile, withBody } from './upload.js';

/**
 * Slave files: stored beside their master, under its name and a prefix, so that the
 * id follows from the master's. A second upload under one prefix is refused by the
 * storage (17), which is why an upload in doubt is not repeated.
 */

export interface SlaveOptions extends CallOptions, BodyOptions {
  /** Default: that of a path, else the master's. */
  readonly extension?: string | undefined;
}

const PREFIX = /^[A-Za-z0-9._-]+$/;
const SLAVE = { ...uploadSlaveFile, reply: namedFile(uploadSlaveFile.reply) };

export async function uploadSlave(
  context: Context,
  masterId: string,
  prefix: string,
  body: Body,
  options: SlaveOptions,
): Promise<string> {
  const operation = 'uploadSlave';
  const id = checkFileId(operation, masterId);
  const checked = checkBody(operation, body, options);
  if (!PREFIX.test(prefix) || prefix.length > SLAVE_PREFIX_BYTES) {
    throw invalid(operation, `prefix "${prefix}"`);
  }
  const extension =
    options.extension ??
    (checked.kind === 'path' ? uploadExtensionOf(checked.path) : storedExtension(id.name));
  if (!isExtension(extension)) throw invalid(operation, `extension "${extension}"`);
  const slaveId = expectedId(id.group, id.name, prefix, extension);
  const deadline = new Deadline(operation, options, knownSize(checked), masterId);
  return withBody(
    context,
    deadline,
    () => prepareBody(checked, context.settings, deadline),
    async ({ size, payload }) => {
      const storage = await updateTarget(context, id, deadline);
      const request = { master: id.name, size, prefix, extension };
      const stored = await context.caller.callWithPayload(
        storage,
        SLAVE,
        request,
        payload,
        deadline,
        {
          repeatable: false,
          onFailed: (failed) => context.reportOrphan(orphanOf(failed, operation, size, slaveId)),
        },
      );
      return formatFileId(stored);
    },
  );
}

function expectedId(group: string, master: string, prefix: string, extension: string): string {
  const name = nameOrUndefined(master, prefix, extension);
  if (name === undefined || !parseFileName(group, name)) {
    throw invalid('uploadSlave', `no slave "${prefix}" of ${group}/${master} can be`);
  }
  return `${group}/${name}`;
}

function nameOrUndefined(master: string, prefix: string, extension: string): string | undefined {
  try {
    return slaveName(master, prefix, extension);
  } catch {
    return undefined;
  }
}

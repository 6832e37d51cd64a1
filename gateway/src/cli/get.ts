import { pipeline } from 'node:stream/promises';
import { option } from '@stevedore/options';
import type { Command } from 'commander';
import { writeTo } from '../written-file.js';
import { UsageError } from './errors.js';
import { withClient } from './file-commands.js';
import type { Download } from './gateway-client.js';
import { clientOptions, define, flags } from './options.js';
import { startTransfer } from './progress.js';

/** `stevedore get`: the bytes of a gateway's files. */

const getOptions = {
  ...clientOptions,
  ...flags({
    output: option.text('', 'write to this file; it appears when it is complete. -: stdout', {
      short: 'o',
    }),
    group: option.text('', 'the files of this affinity group, as a ZIP', { short: 'g' }),
  }),
};

const GET_HELP = `
Where the gateway has API keys, a group needs one with the scopes "list" and "read".

Examples:
  stevedore get KEY -o photo.jpg
  stevedore get group1/M00/00/00/... > photo.jpg
  stevedore get --group album-7 -o album.zip`;

/** Writes a file to stdout, or under another name and then renames it. */
export function get(command: Command): void {
  define(command, getOptions, GET_HELP, (options, id: string | undefined) => {
    const { output, group } = options;
    if ((id === undefined) === (group === '')) {
      throw new UsageError('name either a file, or a group with --group');
    }
    return withClient(options, async (client) => {
      const content = await (id === undefined ? client.zip({ group }) : client.download(id));
      if (output === '' || output === '-')
        await pipeline(content.body, shownAsText, process.stdout, { end: false });
      else await toFile(content, output);
    });
  });
}

async function toFile({ body, size }: Download, path: string): Promise<void> {
  const progress = startTransfer(size);
  let doneBytes = 0;
  const counted = async function* (chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      doneBytes += chunk.length;
      progress.update(doneBytes, 0);
      yield chunk;
    }
  };
  try {
    await writeTo(path, counted(body));
  } finally {
    progress.stop();
  }
}

/** Binary bytes, and control characters that others have written, would leave a terminal unusable. */
async function* shownAsText(content: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const chunk of content) {
    if (process.stdout.isTTY && CONTROLS.test(chunk.toString('latin1'))) {
      throw new UsageError('the file is not text; write it to a file with -o FILE, or pipe it on');
    }
    yield chunk;
  }
}

const CONTROLS = /[\x00-\x08\x0b\x0e-\x1f\x7f]/;

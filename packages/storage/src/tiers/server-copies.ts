import { StatusError } from '../errors.js';
import type { DataFiles } from '../io-tier/data-files.js';
import type { StripedFile } from '../io-tier/striped-file.js';
import type { MoveStep, NewContent } from './move.js';

/** With other servers each time: one that has failed is not asked for a moment. */
const MAX_COPY_ATTEMPTS = 3;

/**
 * Writes the content to I/O servers, read back there and synced; undefined if there
 * are none that take it: then it stays on this disk.
 */
export async function copyToServers(
  dataFiles: DataFiles | undefined,
  name: string,
  { bytes, mtimeSeconds }: NewContent,
  onStep: (step: MoveStep, name: string) => void,
): Promise<StripedFile | undefined> {
  for (let attempt = 0; attempt < MAX_COPY_ATTEMPTS; attempt += 1) {
    let file: StripedFile | undefined;
    try {
      file = await dataFiles?.beginMove(name, { bytes: bytes.length, mtimeSeconds });
      if (!file) return undefined;
      await file.writeAt([bytes], 0);
      await file.sync();
      onStep('copied', name);
      onStep('verified', name);
      return file;
    } catch (error) {
      await file?.close();
      if (!(error instanceof StatusError)) throw error;
    }
  }
  return undefined;
}

import { ProtocolError } from './errors.js';
import { TAIL_CHARS } from './file-id.js';

/**
 * Names of slave files: the master's up to its extension, the prefix, and an
 * extension. `extension` undefined takes the master's. Throws ProtocolError for a
 * prefix or master that the storages refuse too.
 */
export function slaveName(master: string, prefix: string, extension: string | undefined): string {
  const withPath = master.startsWith('M');
  // `M00/` in front does not count.
  if (master.length - (withPath ? 4 : 0) < 34) throw new ProtocolError(`master name "${master}"`);
  const tailAt = master.length - TAIL_CHARS;
  const dot = master.indexOf('.', tailAt);
  const stem = dot === -1 ? master : master.slice(0, dot);
  const own = dot === -1 ? '' : master.slice(dot + 1);
  const chosen = (extension ?? own).replace(/^\./, '');
  if (prefix === '-m' && chosen === '') {
    throw new ProtocolError('prefix "-m" without extension is the name of metadata');
  }
  if (prefix === '' && chosen === own) throw new ProtocolError('a slave needs a prefix');
  return `${stem}${prefix}${chosen === '' ? '' : `.${chosen}`}`;
}

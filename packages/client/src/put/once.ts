import { MARK_BYTES } from '@stevedore/staging';
import { invalidOption } from '../options.js';

/** The mark as text, as in records. Throws `invalid_option`. */
export function onceText(once: Uint8Array): string {
  if (once.length !== MARK_BYTES) throw invalidOption(`once: ${MARK_BYTES} bytes are needed`);
  return Buffer.from(once).toString('base64url');
}

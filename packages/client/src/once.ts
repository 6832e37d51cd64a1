import { invalidOption } from './options.js';

/** Length of the mark of an upload that may be sent twice. */
const ONCE_BYTES = 16;

/** The mark as records store it. Throws `invalid_option`. */
export function onceText(once: Uint8Array): string {
  if (once.length !== ONCE_BYTES) throw invalidOption(`once: ${ONCE_BYTES} bytes are needed`);
  return Buffer.from(once).toString('base64url');
}

import { invalidOption } from './options.js';

/** Bytes of an upload's idempotency mark. */
const ONCE_BYTES = 16;

/** The mark as text, as in records. Throws `invalid_option`. */
export function onceText(once: Uint8Array): string {
  if (once.length !== ONCE_BYTES) throw invalidOption(`once: ${ONCE_BYTES} bytes are needed`);
  return Buffer.from(once).toString('base64url');
}

import { Socket } from 'node:net';

/**
 * A socket that reads before it breaks. A storage may refuse an upload and close
 * while the body is still being sent; the next write then fails although the refusal
 * lies ready to be read. Here a failed write is reported only after the event loop
 * has polled once more, and so after what the server had sent has been delivered.
 */

type Done = (error?: Error | null) => void;

export class PatientSocket extends Socket {
  override _write(chunk: unknown, encoding: BufferEncoding, done: Done): void {
    super._write(chunk, encoding, afterReading(done));
  }

  override _writev(chunks: { chunk: unknown; encoding: BufferEncoding }[], done: Done): void {
    super._writev?.(chunks, afterReading(done));
  }
}

function afterReading(done: Done): Done {
  return (error) => {
    if (!error) return done();
    // The first turn may come before the next poll, the second cannot.
    setImmediate(() => setImmediate(() => done(error)));
  };
}

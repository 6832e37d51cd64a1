import type { ServerResponse } from 'node:http';

/** Runs when the response closes; at once if its client has gone already. */
export function whenClosed(response: ServerResponse, run: () => void): void {
  // Of HTTP/2, only the stream tells.
  const { destroyed, stream } = response as ServerResponse & { stream?: { destroyed: boolean } };
  if (destroyed || stream?.destroyed) run();
  else response.once('close', run);
}

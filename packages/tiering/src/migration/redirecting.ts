import { DownloadFlag, downloadFile, Status } from '@stevedore/protocol';
import { type Context, type Handler, StatusError } from '@stevedore/wire';

/**
 * DOWNLOAD_FILE of a file that lies in another group: a client that asks for it is answered
 * with its place, and reads there. For every other client the home fetches the bytes.
 */
export function redirecting<Session>(
  handler: Handler<Session>,
  placeOf: (body: Buffer) => string | undefined,
): Handler<Session> {
  if (handler.code !== downloadFile.code || handler.kind !== 'control') return handler;
  return {
    ...handler,
    handle: (body: Buffer, context: Context<Session>) => {
      const isWanted = (context.header.status & DownloadFlag.placeWanted) !== 0;
      const place = isWanted ? placeOf(body) : undefined;
      if (place === undefined) return handler.handle(body, context);
      throw new StatusError(Status.elsewhere, place, Buffer.from(place));
    },
  };
}

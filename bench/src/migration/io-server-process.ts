import { type IoServer, startIoServer } from '@stevedore/storage';
import { serve } from '../harness/serve.js';

/** An I/O server in a process of its own. */

export interface StartIoArgument {
  readonly directory: string;
  readonly tracker: string;
}

export type IoServerHandlers = {
  /** Answers with the server's id, once the tracker knows of it. */
  readonly start: (argument: StartIoArgument) => Promise<string>;
};

let server: IoServer | undefined;

async function start({ directory, tracker }: StartIoArgument): Promise<string> {
  server = await startIoServer({
    port: 0,
    directory,
    trackers: [tracker],
    onError: (error) => console.error(`I/O server: ${error.message}`),
  });
  await server.joined();
  return server.id;
}

async function close(): Promise<void> {
  await server?.close();
}

serve({ start } satisfies IoServerHandlers, close);

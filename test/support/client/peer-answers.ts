import type { OutgoingHttpHeaders, RequestListener } from 'node:http';
import { crc32 } from 'node:zlib';
import { writeFacts } from '@stevedore/client/internal';
import {
  answerProof,
  PEER_FILE_HEADER,
  PEER_HEADER,
} from '../../../packages/client/dist/holders/peer-seals.js';

/** Answers of a gateway of the deployment, as another one takes them. */

export const PEERS = { secret: 'shared', mapNow: Date.now };

/** The listener's answers, with the proof that they are those of a gateway. */
export function proven(listener: RequestListener, peers = PEERS): RequestListener {
  return (request, response) => {
    const token = String(request.headers[PEER_HEADER]);
    const writeHead = response.writeHead.bind(response);
    response.writeHead = ((status: number, headers: OutgoingHttpHeaders = {}) => {
      const proof = answerProof(peers, token, status, headers[PEER_FILE_HEADER]);
      return writeHead(status, { [PEER_HEADER]: proof, ...headers });
    }) as typeof response.writeHead;
    listener(request, response);
  };
}

/** A file's facts, as a gateway writes them. */
export function factsOf(key: string, content: Buffer, facts: object = {}): object {
  return {
    ...{ key, name: 'f.bin', type: 'text/plain', size: content.length, state: 'staged' },
    crc32: crc32(content).toString(16).padStart(8, '0'),
    stagedAt: new Date(0).toISOString(),
    ...facts,
  };
}

/** The answer to a question for these keys, of a gateway where all of them have this content. */
export function tellFacts(url: string, content: Buffer, facts: object = {}, isInline = true) {
  const { most, keys = '' } = Object.fromEntries(new URL(url, 'http://peer').searchParams);
  const bytes = isInline && content.length <= Number(most) ? content : undefined;
  const told = keys.split(',').map((key) => ({ facts: factsOf(key, content, facts), bytes }));
  const { digest, content: body } = writeFacts(told);
  return { head: { [PEER_FILE_HEADER]: digest, 'content-length': body.length }, body };
}

/** An answer about one file: why there are no facts of it. */
export function tellProblem(problem: string) {
  const { digest, content: body } = writeFacts([{ problem }]);
  return { head: { [PEER_FILE_HEADER]: digest, 'content-length': body.length }, body };
}

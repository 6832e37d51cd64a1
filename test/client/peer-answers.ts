import type { OutgoingHttpHeaders, RequestListener } from 'node:http';
import {
  answerProof,
  PEER_FILE_HEADER,
  PEER_HEADER,
} from '../../packages/client/dist/deployment/peer-seals.js';

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

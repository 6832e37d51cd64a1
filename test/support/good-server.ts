import { type Answer, type Received, replyFrame, ScriptedServer } from './cluster/index.js';
import { bodyOf, frameVector } from './vectors.js';

/**
 * Tracker and storage in one, answering with the recorded replies of real ones.
 * Only the address in a tracker's answer is written over, to lead to the storage.
 */

export const HELLO_ID = 'group1/M00/00/00/fwARA2sAsIGAejQlAAAADcRYHyQ645.txt';
export const HELLO = Buffer.from('hello fastdfs');

export class GoodServer {
  readonly server: ScriptedServer;
  /** Every request, in order of arrival. */
  readonly requests: Received[] = [];
  /** Bodies of uploads, without their heads. */
  readonly uploads: Buffer[] = [];
  /** What downloads answer, whatever the name. */
  content: Buffer = HELLO;
  /** Width of the address in tracker replies. */
  wide = false;
  /** Where tracker replies lead; undefined is this server itself. */
  storage: { host: string; port: number } | undefined;
  /** Takes the answer to a command into its own hands. */
  readonly answers = new Map<number, Answer>();
  /** As `FrameHandler.onHeader`. */
  onHeader: ((received: Omit<Received, 'body' | 'frame'>) => boolean) | undefined;

  private constructor(server: ScriptedServer) {
    this.server = server;
  }

  static async listen(host?: string): Promise<GoodServer> {
    const server = await ScriptedServer.listen({ onRequest() {} }, host);
    const good = new GoodServer(server);
    server.handler = {
      onRequest: (received) => good.#onRequest(received),
      onHeader: (received) => good.onHeader?.(received) ?? false,
    };
    return good;
  }

  get address(): string {
    return this.server.address;
  }

  count(command: number): number {
    return this.requests.filter((request) => request.command === command).length;
  }

  close(): Promise<void> {
    return this.server.close();
  }

  #onRequest(received: Received): void {
    this.requests.push(received);
    if (received.command === 11) this.uploads.push(received.body.subarray(15));
    const good = this.#reply(received);
    const answer = this.answers.get(received.command);
    if (answer) answer(received, good);
    else received.socket.write(good);
  }

  #reply({ command, body }: Received): Buffer {
    switch (command) {
      case 101:
        return this.#target('tracker.query_store_without_group_one');
      case 104:
        return this.#target('tracker.query_store_with_group_one');
      case 102:
        return this.#target('tracker.query_fetch_one.normal');
      case 103:
        return this.#target('tracker.query_update');
      case 11:
        return recorded('storage.upload.buff.13.txt');
      case 12:
        return recorded('storage.delete.txt');
      case 22:
        return recorded('storage.query_file_info.txt');
      case 14:
        return this.#download(Number(body.readBigInt64BE(0)), Number(body.readBigInt64BE(8)));
      case 111:
        return replyFrame(0);
      default:
        return replyFrame(22);
    }
  }

  #target(op: string): Buffer {
    const vector = frameVector('tracker', op, this.wide ? 'ids' : 'plain');
    const body = Buffer.from(bodyOf(vector.response_hex!));
    const width = this.wide ? 45 : 15;
    const { host, port } = this.storage ?? { host: '127.0.0.1', port: this.server.port };
    body.fill(0, 16, 16 + width);
    body.write(host, 16, 'latin1');
    body.writeBigInt64BE(BigInt(port), 16 + width);
    return replyFrame(0, body);
  }

  #download(offset: number, length: number): Buffer {
    if (offset >= this.content.length) return replyFrame(22);
    const end = length === 0 ? this.content.length : offset + length;
    return replyFrame(0, this.content.subarray(offset, end));
  }
}

function recorded(op: string): Buffer {
  return Buffer.from(frameVector('storage', op).response_hex!, 'hex');
}

import { type Disk, decoratedFile, localDisk } from '@stevedore/disk';
import {
  appendFile,
  downloadFile,
  type FileName,
  uploadAppenderFile,
  uploadSlaveFile,
} from '@stevedore/protocol';
import { type MemberOfTest, send } from './group.js';
import type { RawClient } from './support.js';

/** What tests of a group ask its members for. */

export async function download(member: MemberOfTest, file: FileName): Promise<string | number> {
  const client = await member.connect();
  const { status, answer } = await client.ask(downloadFile, { ...file, offset: 0, length: 0 });
  client.socket.destroy();
  return answer?.toString('latin1') ?? status;
}

export async function appender(client: RawClient, content: string): Promise<FileName> {
  const request = { storePathIndex: 0, size: content.length, extension: 'log' };
  const { answer } = await send(client, uploadAppenderFile, request, Buffer.from(content));
  return answer!;
}

export async function append(
  client: RawClient,
  { name }: FileName,
  content: string,
): Promise<number> {
  const request = { name, size: content.length };
  return (await send(client, appendFile, request, Buffer.from(content))).status;
}

export async function slave(
  client: RawClient,
  master: FileName,
  content: string,
): Promise<FileName> {
  const { name } = master;
  const request = { master: name, prefix: '_s', extension: 'txt', size: content.length };
  return (await send(client, uploadSlaveFile, request, Buffer.from(content))).answer!;
}

/** A disk on which new files can be held up. */
export function gatedDisk() {
  let gate: Promise<void> | undefined;
  const disk: Disk = {
    ...localDisk,
    create: async (path) => {
      const file = await localDisk.create(path);
      return decoratedFile(file, {
        sync: async () => {
          await gate;
          await file.sync();
        },
      });
    },
  };
  const hold = (): (() => void) => {
    let release: () => void = () => {};
    gate = new Promise((resolve) => {
      release = resolve;
    });
    return () => {
      gate = undefined;
      release();
    };
  };
  return { disk, hold };
}

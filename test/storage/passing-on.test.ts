import { describe, expect, it } from 'vitest';
import { ContestedFiles } from '../../packages/storage/dist/replication/contested-files.js';
import type { Delivery } from '../../packages/storage/dist/replication/delivery.js';
import { Flights } from '../../packages/storage/dist/replication/flights.js';
import type { Journal } from '../../packages/storage/dist/replication/journal.js';
import type { LogRecord } from '../../packages/storage/dist/replication/log-record.js';
import type { Sending } from '../../packages/storage/dist/replication/sending.js';
import { Standing } from '../../packages/storage/dist/replication/standing.js';
import { WantedFiles } from '../../packages/storage/dist/replication/wanted-files.js';

const byName = { keyOf: ({ name }: LogRecord) => (name === '?' ? undefined : name) };

/** Sends a file once `isReady` says so, and notes which. */
function delivering(isReady: (name: string, sent: readonly string[]) => boolean) {
  const sent: string[] = [];
  const delivery = {
    async attempt({ name }: LogRecord): Promise<boolean> {
      const isThere = isReady(name, sent);
      if (isThere) sent.push(name);
      return isThere;
    },
  };
  return { sent, delivery: delivery as unknown as Delivery };
}

describe('files that a member is to have', () => {
  const wantedFiles = (): WantedFiles => new WantedFiles(byName as unknown as Sending);
  const fine = (): void => {};

  it('do not wait for each other', async () => {
    const wanted = wantedFiles();
    for (const name of ['first', '?', 'second']) wanted.want(name);
    const { sent, delivery } = delivering(
      (name, before) => name !== 'first' || before.includes('second'),
    );
    await wanted.send(new Flights(8), delivery, fine);
    expect(sent).toEqual(['second', 'first']);
    expect(wanted.isEmpty).toBe(true);
  });

  it('wait for changes of the same file that are on their way, and those wait for them', async () => {
    const wanted = wantedFiles();
    wanted.want('file');
    const flights = new Flights(8);
    let land: (() => void) | undefined;
    flights.add(10, 'file', async (done) => {
      land = done;
    });
    const isFree: boolean[] = [];
    const { sent, delivery } = delivering((name) => {
      isFree.push(!flights.blocks(name));
      return true;
    });
    const sending = wanted.send(flights, delivery, () => {
      if (sent.length === 0) setImmediate(() => land?.());
    });
    await sending;
    expect(sent).toEqual(['file']);
    expect(isFree).toEqual([false]);
    expect(flights.blocks('file')).toBe(false);
  });

  it('stay wanted if the session fails', async () => {
    const wanted = wantedFiles();
    wanted.want('file');
    wanted.owe('owed');
    const { delivery } = delivering(() => {
      throw new Error('the connection has ended');
    });
    await expect(wanted.send(new Flights(8), delivery, fine)).rejects.toThrow('has ended');
    const again = delivering(() => true);
    await wanted.send(new Flights(8), again.delivery, fine);
    expect(again.sent.sort()).toEqual(['file', 'owed']);
  });
});

describe('a file that was changed at two ends', () => {
  it('is written into the log once, until all members have that', async () => {
    const notes: string[] = [];
    let passedOn = 0;
    const journal = {
      begin: () => ({
        position: 0,
        async note(operation: string, name: string) {
          notes.push(`${operation} ${name}`);
          this.position = notes.length;
        },
        end() {},
      }),
    };
    const contested = new ContestedFiles({
      journal: journal as unknown as Journal,
      concerns: (name) => name !== '../etc/passwd',
      isPassedOn: (position) => position <= passedOn,
    });
    for (const name of ['one', 'one', '../etc/passwd', 'two']) await contested.note(name);
    expect(notes).toEqual(['U one', 'U two']);
    passedOn = 1;
    for (const name of ['one', 'two']) await contested.note(name);
    expect(notes).toEqual(['U one', 'U two', 'U one']);
  });
});

describe('who hears that others go on without it', () => {
  it('believes an answer that is not older than what was said since it asked', () => {
    const standing = new Standing();
    standing.settle(['a']);
    const { returns } = standing;
    standing.levelWith('a');
    standing.heard('a', returns);
    expect(standing.isOut).toBe(false);
    standing.heard('a', standing.returns);
    expect(standing.isLedBy('a')).toBe(true);
  });

  it('does not begin anew for one of whom it knows', () => {
    const standing = new Standing();
    standing.settle(['a']);
    const turn = standing.turnOf('a');
    standing.heard('a', standing.returns);
    expect(standing.turnOf('a')).toBe(turn);
  });
});

import { Socket } from 'node:net';

/** A wire between two machines, each way: `relay-process.ts` stands for it. */
export interface Wire {
  readonly delayMs: number;
  readonly bytesPerSecond: number;
}

/** From now on every connection of this process goes over the relay at this port. */
export function useWire(port: number): void {
  const { connect } = Socket.prototype;
  Object.assign(Socket.prototype, {
    connect(this: Socket, to: { readonly host: string; readonly port: number }): Socket {
      const target = [...to.host.split('.').map(Number), to.port >> 8, to.port & 0xff];
      const near = { host: '127.0.0.1', port };
      (connect as (this: Socket, to: typeof near) => Socket).call(this, near);
      this.write(Buffer.from(target));
      return this;
    },
  });
}

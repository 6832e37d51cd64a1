import { asError } from '../errors.js';
import { type Endpoint, endpointText, isOwnAddress } from '../options.js';
import { FrameClient, type FrameClientOptions } from './frame-client.js';

/**
 * The long connection to a tracker: begun anew whenever it breaks, until the signal. Only
 * the first failure in a row is reported.
 */
export interface TrackerSession {
  readonly tracker: Endpoint;
  readonly signal: AbortSignal;
  /** Ends when the connection does; `serves` is called once it has served for something. */
  readonly session: (serves: () => void) => Promise<void>;
  /** Between two attempts. */
  readonly pause: () => Promise<unknown>;
  readonly onError: (error: Error) => void;
}

export async function keepSession(parts: TrackerSession): Promise<void> {
  const { tracker, signal, session, pause, onError } = parts;
  let hasFailed = false;
  while (!signal.aborted) {
    try {
      await session(() => {
        hasFailed = false;
      });
    } catch (error) {
      if (!hasFailed && !signal.aborted) {
        const { message } = asError(error);
        onError(new Error(`Tracker ${endpointText(tracker)}: ${message}`, { cause: error }));
      }
      hasFailed = true;
    }
    await pause();
  }
}

/** From the address that this server listens on, if it names one. */
export function openToTracker(
  tracker: Endpoint,
  host: string,
  options: Pick<FrameClientOptions, 'timeoutMs' | 'access'>,
  signal: AbortSignal,
): Promise<FrameClient> {
  const localAddress = isOwnAddress(host) ? { localAddress: host } : {};
  return FrameClient.open({ ...tracker, ...localAddress, ...options }, signal);
}

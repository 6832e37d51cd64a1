import type { Load } from '@stevedore/balance';
import { type ClassInterval, REQUEST_CLASSES, type RequestClass } from '../scheduler/scheduler.js';
import type { ClassStatus } from './status.js';

/** What was served and forecast of each class, interval by interval, for who looks at it. */

const BYTES = { metadata: 'metadataBytes', smallFile: 'smallFileBytes' } as const;

export class LoadFigures {
  #intervals = 0;
  #forecast: Load | undefined;
  readonly #errors = { metadata: 0, smallFile: 0 };
  #classes: Record<RequestClass, ClassStatus> = { metadata: noLoad(), smallFile: noLoad() };

  get intervals(): number {
    return this.#intervals;
  }

  get classes(): Readonly<Record<RequestClass, ClassStatus>> {
    return { ...this.#classes };
  }

  /** An interval has ended: `alone` is what its forecast was of, `forecast` the next one. */
  ended(served: Readonly<Record<RequestClass, ClassInterval>>, alone: Load, forecast: Load): void {
    this.#intervals += 1;
    for (const kind of REQUEST_CLASSES) {
      const bytes = BYTES[kind];
      if (this.#forecast) this.#errors[kind] += Math.abs(this.#forecast[bytes] - alone[bytes]);
      this.#classes[kind] = {
        ...served[kind],
        forecastBytes: forecast[bytes],
        meanErrorBytes: this.#errors[kind] / Math.max(1, this.#intervals - 1),
        busyAnswersTotal: this.#classes[kind].busyAnswersTotal + served[kind].busyAnswers,
      };
    }
    this.#forecast = forecast;
  }
}

function noLoad(): ClassStatus {
  return {
    servedBytes: 0,
    waitingBytes: 0,
    servedRequests: 0,
    waitingRequests: 0,
    waitedMs: 0,
    ranMs: 0,
    busyAnswers: 0,
    forecastBytes: 0,
    meanErrorBytes: 0,
    busyAnswersTotal: 0,
  };
}

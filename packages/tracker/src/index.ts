/** A FastDFS tracker. */
export { startTracker, type Tracker } from './tracker.js';
export type { TrackerOptions } from './tracker-options.js';

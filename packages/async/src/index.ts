/** Turns and waits of asynchronous work. */
export { KeyedLock, type Serial, serial } from './turns.js';
export { abortable, deferred, Listeners, News } from './waits.js';

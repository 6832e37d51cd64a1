/**
 * How much garbage V8 lets gather before it looks through the whole heap: twice what was alive
 * the last time. Left to itself it looks after 10 MB of new bodies, which costs a busy gateway a
 * fifth of its CPU; what is alive is some 30 MB and half a KB for each file in the cache.
 */
export const HEAP_GROWTH = '--heap-growing-percent=200';

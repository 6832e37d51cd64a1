export * from './config.js';
export * from './options.js';
export * from './types.js';

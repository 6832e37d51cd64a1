export * from './file-cache.js';

/**
 * `npm start`: installs and builds what has changed, then becomes the gateway. A signal
 * that ends npm goes no further than the shell between the two, so the gateway ends in
 * good order when that is gone.
 */
import './prepare.mjs';

const PARENT_CHECK_MS = 500;
const SIGNALS = ['SIGTERM', 'SIGINT'];

const parent = process.ppid;
let listens = false;
const check = setInterval(() => {
  // The gateway listens once it has begun; a second signal would end it at once.
  if (!listens && process.listenerCount('SIGTERM') > 0) {
    listens = true;
    for (const name of SIGNALS) process.once(name, () => clearInterval(check));
  }
  if (listens && process.ppid !== parent) process.kill(process.pid, 'SIGTERM');
}, PARENT_CHECK_MS).unref();

process.argv.splice(2, 0, 'gateway');
await import('../gateway/dist/main.js');

/**
 * `npm start`: installs and builds what has changed, then becomes the gateway, or with `--cluster`
 * a whole cluster. A signal
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

const given = process.argv.slice(2);
const others = given.filter((word) => word !== '--cluster');
process.argv.splice(
  2,
  given.length,
  others.length < given.length ? 'cluster' : 'gateway',
  ...others,
);
await import('../gateway/dist/main.js');

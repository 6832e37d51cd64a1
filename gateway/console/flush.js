// Has the gateway store what is staged, on request.
import { askForKey, isKeyWanted } from './key.js';
import { call } from './transfer.js';
import { at, originsOf, plural } from './view.js';

/** `onStored` hears when FastDFS has all. */
export function startFlushing({ onStored }) {
  at('flush').addEventListener('click', async () => {
    at('flush').disabled = true;
    say('Storing…');
    try {
      const { away } = await (await call('flush', { method: 'POST' })).json();
      say(
        away
          ? `FastDFS has all of it, except for what ${plural(away.length, 'server')} may have that did not answer (${originsOf(away)}).`
          : 'All of it is in FastDFS.',
      );
      onStored();
    } catch (error) {
      say(error.message);
      if (isKeyWanted(error)) await askForKey(error);
    } finally {
      at('flush').disabled = false;
    }
  });
}

function say(text) {
  at('flush-said').textContent = text;
}

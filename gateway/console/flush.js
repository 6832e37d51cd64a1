// Has the gateway store what is staged, on request.
import { askForKey, isKeyWanted } from './key.js';
import { call } from './transfer.js';
import { at } from './view.js';

/** `onStored` hears when FastDFS has all. */
export function startFlushing({ onStored }) {
  at('flush').addEventListener('click', async () => {
    at('flush').disabled = true;
    say('Storing…');
    try {
      await call('flush', { method: 'POST' });
      say('All of it is in FastDFS.');
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

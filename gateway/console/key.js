// Asks for an API key, once at a time, where the gateway wants one.
import { hasKey, setKey } from './transfer.js';
import { at } from './view.js';

let asking;

/** Resolves with whether there is one now. */
export function askForKey(error) {
  asking ??= new Promise((resolve) => {
    const dialog = at('key-dialog');
    const why = hasKey() ? `The gateway refused this key: ${error.message}` : error.message;
    at('key-why').textContent = `${why} The key stays in this tab. Closing the tab discards it.`;
    setKey(undefined);
    at('key').value = '';
    at('key-form').onsubmit = () => setKey(at('key').value.trim());
    dialog.onclose = () => {
      asking = undefined;
      at('enter-key').hidden = hasKey();
      resolve(hasKey());
    };
    dialog.showModal();
  });
  return asking;
}

/** The address that the gateway prints at its start has its own key. */
export function takeGivenKey() {
  const given = /^#key=(.+)$/.exec(location.hash)?.[1];
  if (given === undefined) return;
  setKey(given);
  history.replaceState(null, '', location.pathname);
}

export function isKeyWanted(error) {
  return error.status === 401;
}

// Pictures of the list, one at a time and as large as the window: with the arrow keys, by swiping, or
// with buttons. What is beside them follows.
import { list, openFile } from './list.js';
import { canPreview, isPicture, preview } from './preview.js';
import { fileUrl } from './transfer.js';
import { at } from './view.js';

/** Shorter ones are taps. */
const SWIPE_PX = 40;

let shown;
let onNearEnd;

/** Hooks: `onNearEnd()`. */
export function startViewer(hooks) {
  onNearEnd = hooks.onNearEnd;
  const dialog = at('viewer');
  at('viewer-previous').onclick = () => step(-1);
  at('viewer-next').onclick = () => step(1);
  at('viewer-close').onclick = () => dialog.close();
  dialog.onkeydown = ({ key }) => {
    if (key === 'ArrowLeft') step(-1);
    if (key === 'ArrowRight') step(1);
  };
  dialog.onclose = () => {
    at('viewer-picture').replaceChildren();
    at('list').focus();
  };
  let from;
  dialog.addEventListener('touchstart', ({ touches }) => {
    from = touches.length === 1 ? touches[0] : undefined;
  });
  dialog.addEventListener('touchend', ({ changedTouches: [to] }) => {
    const right = from ? to.clientX - from.clientX : 0;
    const isAcross = from && Math.abs(right) > Math.abs(to.clientY - from.clientY);
    if (isAcross && Math.abs(right) > SWIPE_PX) step(right > 0 ? -1 : 1);
  });
}

export const canView = (file) => isPicture(file) && canPreview(file);

export function view(file) {
  shown = file;
  const { key, name, type, size } = file;
  at('viewer-name').textContent = name || key;
  at('viewer-picture').replaceChildren(preview({ url: fileUrl(key), name, type, size }));
  if (!at('viewer').open) at('viewer').showModal();
}

function step(by) {
  const pictures = list.files.filter(canView);
  const index = pictures.findIndex(({ key }) => key === shown.key) + by;
  if (index >= pictures.length - 1) onNearEnd();
  const file = pictures[index];
  if (!file) return;
  openFile(file);
  view(file);
}

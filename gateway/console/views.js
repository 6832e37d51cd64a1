// The views of the console: one is shown, and the address says which.
import { at } from './view.js';

const VIEWS = ['overview', 'files', 'access'];

/** `onShown` hears which view is shown, at the start too. */
export function startViews(onShown) {
  const show = () => {
    const asked = location.hash.slice(1);
    const shown = VIEWS.includes(asked) ? asked : VIEWS[0];
    for (const view of VIEWS) {
      at(`view-${view}`).hidden = view !== shown;
      const link = at('views').querySelector(`[href="#${view}"]`);
      if (view === shown) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    onShown(shown);
  };
  addEventListener('hashchange', show);
  show();
}

export function goTo(view) {
  location.hash = view;
}

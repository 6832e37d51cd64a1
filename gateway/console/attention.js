// What needs attention, worst first, as the gateway found it.
import { at, element } from './view.js';

let drawn;

export function drawAttention(findings) {
  // A screen reader speaks at every change, so only a change is one.
  const text = JSON.stringify(findings);
  if (text === drawn) return;
  drawn = text;
  at('attention').replaceChildren(...(findings.length === 0 ? [nothing()] : [list(findings)]));
}

function nothing() {
  return element('p', { className: 'calm' }, 'Nothing needs attention.');
}

function list(findings) {
  return element('ul', { className: 'attention' }, ...findings.map(item));
}

/** One sentence: what it is, and what to do. */
function item({ what, verdict, detail, advice }) {
  const level = element('span', { className: 'level' }, verdict);
  const name = element('strong', {}, `${what[0].toUpperCase()}${what.slice(1)}`);
  const said = element('p', {}, name, `: ${detail}. `, element('em', {}, `To do: ${advice}.`));
  return element('li', { dataset: { level: verdict } }, level, said);
}

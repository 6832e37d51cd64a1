import { round } from '../harness/markdown.js';

/** Numbers of any size as people read them. Pure. */

const STEPS = ['', 'k', 'M', 'G', 'T', 'P'] as const;

/** 1.2 M: with the thousands that it takes. */
export function amount(value: number): string {
  const step = Math.min(STEPS.length - 1, Math.max(0, Math.floor(Math.log10(value) / 3)));
  if (!(value > 0)) return '0';
  return `${round(value / 1000 ** step)} ${STEPS[step]}`.trim();
}

export function bytesText(bytes: number): string {
  const text = amount(bytes);
  return /[a-z]$/i.test(text) ? `${text}B` : `${text} B`;
}

export function timeText(seconds: number): string {
  if (seconds < 120) return `${round(seconds)} s`;
  if (seconds < 7_200) return `${round(seconds / 60)} min`;
  if (seconds < 172_800) return `${round(seconds / 3_600)} h`;
  return `${round(seconds / 86_400)} d`;
}

export function share(value: number): string {
  return `${(100 * value).toFixed(1)} %`;
}

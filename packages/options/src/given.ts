/** Texts as other tools write them: editors put a mark before them, shells and YAML a line break behind. */

export function givenText(text: string): string {
  return text.replace(/^\ufeff/, '').replace(/[\r\n]+$/, '');
}

/** Throws SyntaxError. */
export function givenJson(text: string): unknown {
  return JSON.parse(givenText(text));
}

/** True if it has a line break or another control character. */
export function hasControl(text: string): boolean {
  return /[\x00-\x1f\x7f]/.test(text);
}

/**
 * True for what Kubernetes sets in every container if a service's name begins with `stevedore`:
 * `STEVEDORE_PORT=tcp://10.0.0.1:8080`, of which only the value tells that it is no option.
 */
export function isServiceLink(name: string, value: string): boolean {
  const names = /_(?:SERVICE_HOST|SERVICE_PORT\w*|PORT_\d+_(?:TCP|UDP|SCTP)\w*)$/;
  return names.test(name) || (name.endsWith('_PORT') && /^(?:tcp|udp|sctp):\/\//.test(value));
}

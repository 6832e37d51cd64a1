import type { DeploymentFinding } from '@stevedore/client/internal';
import type { GatewayOptions } from '../options.js';
import { type Finding, judged, ok, problem, warning } from './finding.js';

/** Checks a deployment: whether the map answers, and which gateways reach each other. */

type Options = Pick<GatewayOptions, 'peerUrl' | 'partner' | 'stagedCopies'>;

/** `isRunning`: a gateway with these options runs, so the others can try to reach it. */
export function judgeDeployment(
  { error, gateways, reach }: DeploymentFinding,
  { peerUrl, partner, stagedCopies }: Options,
  isRunning: boolean,
): Finding[] {
  if (error !== undefined) {
    const advice =
      'check --map, and that this machine reaches the database; gateways that run go on without it';
    return [problem('map', error, advice)];
  }
  const findings = [ok('map', `answers, and knows ${gateways} other gateways that are alive`)];
  const none = 'other gateways cannot read what is staged here: name one that they reach';
  findings.push(judged('peer URL', peerUrl === '' ? 'none' : peerUrl, [peerUrl === '', none]));
  for (const { url, to, back } of reach) {
    const what = `gateway ${url}`;
    if (to !== undefined) {
      findings.push(problem(what, to, 'its staged files are 503 here: check network and its URL'));
    } else if (back !== undefined) {
      const advice = 'what is staged here is 503 there: check --peer-url, --host and the network';
      findings.push(problem(what, `it does not reach ${peerUrl}: ${back}`, advice));
    } else {
      findings.push(ok(what, isRunning ? 'each reaches the other' : 'is reached from here'));
    }
  }
  if (stagedCopies !== 1) {
    const reached = reach.filter(({ to }) => to === undefined).map(({ url }) => url);
    const isThere = partner === '' ? reached.length > 0 : reached.includes(partner);
    const detail = partner === '' ? `one of ${reached.length}` : partner;
    const then = stagedCopies === 2 ? 'uploads wait for FastDFS' : 'uploads have one copy';
    const advice = `${then}: start another gateway that has a --peer-url`;
    findings.push(
      isThere ? ok('partner', detail) : warning('partner', 'cannot be reached', advice),
    );
  }
  return findings;
}

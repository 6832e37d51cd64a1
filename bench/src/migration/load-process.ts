import { serve } from '../harness/serve.js';
import { loads } from './loads.js';

/** One kind of load in a process of its own: no kind waits for the other before it is even sent. */

export type LoadHandlers = typeof loads;

serve(loads);

import { type ProblemCode, ProblemError } from './core/problems.js';

/**
 * What multer itself refuses, by its `limits` or because the form is none. It gives these
 * errors no status, so Express would take them for failures of the server.
 */

const CODES: Readonly<Record<string, ProblemCode>> = {
  LIMIT_FILE_SIZE: 'too_large',
  LIMIT_FILE_COUNT: 'too_many_files',
  LIMIT_PART_COUNT: 'too_many_parts',
  LIMIT_FIELD_COUNT: 'too_many_parts',
  LIMIT_FIELD_VALUE: 'field_too_large',
  LIMIT_FIELD_KEY: 'part_headers_too_large',
};

/** Of the parser that multer uses; they have no code. */
const MALFORMED =
  /^(?:Unexpected end of form|Malformed part header|Multipart: Boundary not found)$/;

/** Undefined for what is not multer's, or not the client's fault. */
export function multerProblem(error: unknown): ProblemError | undefined {
  if (!(error instanceof Error)) return undefined;
  const { name, message } = error;
  if (name === 'MulterError') {
    const { code, field } = error as { readonly code?: string; readonly field?: string };
    const detail = field === undefined ? `${message}.` : `${message}: ${field}.`;
    return new ProblemError(CODES[code ?? ''] ?? 'malformed_multipart', detail, error);
  }
  return MALFORMED.test(message)
    ? new ProblemError('malformed_multipart', `${message}.`, error)
    : undefined;
}

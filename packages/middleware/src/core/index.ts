/**
 * What gateway and middleware share: plain functions over node's request and
 * response, or over values, bound to no framework.
 */
export type { ByteRange } from '@stevedore/client';
export {
  presignedUpload,
  type QueryValues,
  type SignedMethod,
  type SignOptions,
  SKEW_MS,
  signedDownload,
  signQuery,
  type UploadConditions,
  uploadPath,
  type Verified,
  verifyQuery,
} from './access/signed-url.js';
export { type Validators, type Wanted, wanted } from './http/conditions.js';
export { closeAfterReply, hasUnreadBody, Turns } from './http/connection.js';
export type { Disposition } from './http/content-headers.js';
export { DEFAULT_TYPE, essence } from './http/content-headers.js';
export {
  answerFile,
  cacheControl,
  type FileAnswer,
  type FileRequest,
  type Presentation,
  type ResourcePolicy,
  sendAnswer,
} from './http/file-answer.js';
export { MAX_RANGES, type WantedRanges } from './http/ranges.js';
export {
  checkKey,
  fileUrl,
  type InfoJson,
  infoJson,
  type ReceiptJson,
  receiptJson,
} from './http/receipt-json.js';
export { UnsentBytes, type UnsentLimits, type UnsentStats } from './http/unsent-bytes.js';
export {
  type BodyLimits,
  defaultBodyLimits,
  defaultUnsentLimits,
  maxFormBytes,
} from './limits.js';
export {
  isStoreError,
  PROBLEM_TYPE,
  type ProblemAnswer,
  type ProblemBody,
  type ProblemCode,
  ProblemError,
  problemAnswer,
  problemBody,
  problemCodes,
  toProblem,
} from './problems.js';
export { ClientRoom, ProgressGuard, type UploadRoom } from './upload/client-bounds.js';
export type { BodyChecks } from './upload/content-check.js';
export { DIGEST_HEADERS, digestCheck, type HeaderValues } from './upload/digests.js';
export { Form, type FormOptions } from './upload/form.js';
export type { FormPart } from './upload/form-parts.js';
export {
  IdempotentUploads,
  type IdempotentUploadsOptions,
  type Repeatable,
  uploadMark,
} from './upload/idempotency.js';
export { checkPolicy, narrowPolicy, type UploadPolicy } from './upload/policy.js';
export { receiveUpload, type UploadContext } from './upload/receive.js';
export { type BodyOptions, RequestBody, readWhole, tooLarge } from './upload/request-body.js';

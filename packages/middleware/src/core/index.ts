/**
 * The part that gateway and middleware share, over node's request and response, without a
 * framework.
 */
export {
  presignedUpload,
  type QueryValues,
  SKEW_MS,
  signedDownload,
  signQuery,
  type UploadConditions,
  uploadPath,
  type Verified,
  verifyQuery,
} from './access/signed-url.js';
export {
  Files,
  type FilesOptions,
  type PictureMaker,
  type Reading,
  type ShownPicture,
  type Upload,
} from './files.js';
export { wanted } from './http/conditions.js';
export { closeAfterReply, hasUnreadBody, Turns } from './http/connection.js';
export { DEFAULT_TYPE, formatDisposition } from './http/content-headers.js';
export {
  type Answer,
  cacheControl,
  type ResourcePolicy,
  type SentContent,
} from './http/file-answer.js';
export { demandNoFragment, parseQuery, type Query, queryOf } from './http/query.js';
export { UnsentBytes, type UnsentStats } from './http/unsent-bytes.js';
export { whenClosed } from './http/when-closed.js';
export {
  defaultTransferLimits,
  maxFormBytes,
  type TransferLimits,
} from './limits.js';
export {
  isFault,
  methodNotAllowed,
  PROBLEM_TYPE,
  type ProblemBody,
  type ProblemCode,
  ProblemError,
  problemBody,
  problemCodes,
  toProblem,
} from './problems.js';
export {
  checkKey,
  type DeletedJson,
  partJson,
  type ReceiptJson,
  receiptJson,
} from './receipts.js';
export { type ResumableRequest, scopeOfUpload } from './resumable/request.js';
export { digestCheck } from './upload/digests.js';
export { Form } from './upload/form.js';
export {
  LocalMarks,
  type MarkState,
  type Stored,
  type UploadMarks,
  uploadMark,
} from './upload/idempotency.js';
export { checkPolicy, narrowPolicy, type UploadPolicy } from './upload/policy.js';
export {
  ProgressGuard,
  RequestBody,
  readWhole,
  sendContinueIfExpected,
  tooLarge,
  type UploadQuota,
} from './upload/request-body.js';

/** Whether a storage has had everything that its group has; kept across restarts. */
export interface FirstSync {
  readonly done: boolean;
  finish(): void;
}
